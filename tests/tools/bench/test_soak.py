"""The soak: its requests, and how their answers are checked."""

import asyncio
import os
from itertools import islice

from embedder.core.artifact import Artifact
from embedder.core.fast_tokenizers import load
from embedder.core.fast_tokenizers.memo import WordMemo
from tests.embedder.server.running import running
from tools.bench.server import Server
from tools.bench.soak import FILLING, FILLING_WORDS, Case, OtherCallers, cases, soak

REMEMBERED = 16_384


def test_the_beginning_fills_both_memories_of_words_at_once(minilm_artifact: Artifact) -> None:
    """Both caches are full at the same time, so that their sum does not grow later."""
    tokenizer = load(minilm_artifact.manifest.tokenizer.kind, minilm_artifact.tokenizer_path)
    memos = [memo for memo in vars(tokenizer).values() if isinstance(memo, WordMemo)]
    assert len(memos) == 2
    fullest = 0
    for _, _, body, _ in islice(cases(1000, seed=1), 2 * FILLING):
        assert len(tokenizer.encode(body["inputs"])) > minilm_artifact.manifest.max_tokens
        fullest = max(fullest, min(map(len, memos)))
    assert REMEMBERED - FILLING_WORDS <= fullest <= REMEMBERED


def test_a_seed_makes_its_requests_again() -> None:
    """The requests depend only on the seed."""
    assert list(cases(1000, seed=3)) == list(cases(1000, seed=3))
    assert len(list(cases(1000, seed=3))) == 1000


CASES: list[Case] = [
    ("POST", "/", {"text": "a b"}, 200),
    ("POST", "/embed", {"inputs": ["a", "b"]}, 200),
    ("POST", "/api/v1/embed", {"inputs": "a"}, 200),
    ("POST", "/", '{"text": "', 400),
    ("GET", "/nothing", None, 404),
] * 60


def here(port: int) -> Server:
    """Return a server that runs in this process."""
    return Server("kit", "Embedding Kit", port, pid=os.getpid())


def test_all_answers_are_right_and_a_sample_is_sent_again() -> None:
    """Every request is sent once, by whichever client is free."""
    with running() as found:
        server = here(found.address[1])
        result = asyncio.run(soak(server, iter(CASES), clients=7))
    assert result.wrong == []
    assert result.statuses == {200: 180, 400: 60, 404: 60}
    assert len(result.memory) == 3
    assert min(result.memory) > 0
    assert len(result.sample) == 6


def test_an_answer_with_another_status_is_wrong() -> None:
    """The report has the request and the answer."""
    wrong: Case = ("GET", "/nothing", None, 200)
    with running() as found:
        server = here(found.address[1])
        (line,) = asyncio.run(soak(server, iter([wrong]), clients=1)).wrong
    assert line.startswith("GET /nothing None: 404")


async def _with_others(server: Server) -> OtherCallers:
    others = OtherCallers(server)

    def all_answered() -> bool:
        return bool(others.lists[200] and others.runs and others.single.latencies) and (
            others.hostile["uploads"].total() >= 32 and {414, 431} <= set(others.hostile["heads"])
        )

    async with others.sending():
        while not all_answered():
            await asyncio.sleep(0.01)
    return others


def test_the_other_callers_send_what_they_should() -> None:
    """Uploads end as too slow, heads are refused or reset, and texts are answered."""
    with running(body_timeout=0.2) as found:
        server = here(found.address[1])
        others = asyncio.run(_with_others(server))
    assert set(others.single.statuses) == {200}
    assert set(others.hostile["uploads"]) <= {408, 429}
    assert 200 not in others.hostile["heads"]
    assert min(others.runs) >= 0
