"""The soak of the server, with the small model in this process."""

import asyncio
from itertools import islice

from tests.embedder.server.running import running
from tools.bench.server.callers import Beside
from tools.bench.server.servers import Server
from tools.bench.server.soak import soak
from tools.bench.soak import Case

CASES: list[Case] = [
    ("POST", "/", {"text": "a b"}, 200),
    ("POST", "/embed", {"inputs": ["a", "b"]}, 200),
    ("POST", "/api/v1/embed", {"inputs": "a"}, 200),
    ("POST", "/", '{"text": "', 400),
    ("GET", "/nothing", None, 404),
] * 60


class Here(Server):
    """A server in this process."""

    def allocated_kb(self) -> float:
        """Return a fixed number."""
        return 100_000.0


def test_all_answers_are_right_and_a_sample_is_sent_again() -> None:
    """Every request is sent once, by whichever client is free."""
    with running() as found:
        server = Here("kit", "Embedding Kit", [], found.address[1], "/ready")
        result = asyncio.run(soak(server, iter(CASES), clients=7))
    assert result.wrong == []
    assert result.statuses == {200: 180, 400: 60, 404: 60}
    assert result.memory == [100_000] * 3
    assert len(result.sample) == 6


async def _beside(server: Server) -> Beside:
    beside = Beside(server)

    def all_answered() -> bool:
        return bool(beside.lists[200] and beside.runs and beside.single.latencies) and (
            beside.uploads.total() >= 32 and {414, 431} <= set(beside.heads)
        )

    async with beside.sending():
        while not all_answered():
            await asyncio.sleep(0.01)
    return beside


def test_the_callers_beside_it_send_what_they_should() -> None:
    """Uploads end as too slow, heads are refused or reset, and texts are answered."""
    with running(body_timeout=0.2) as found:
        server = Here("kit", "Embedding Kit", [], found.address[1], "/ready")
        beside = asyncio.run(_beside(server))
    assert set(beside.single.statuses) == {200}
    assert beside.uploads[408] + beside.uploads[429] == beside.uploads.total()
    assert 200 not in beside.heads
    assert min(beside.runs) > 0


def test_an_unexpected_status_is_wrong() -> None:
    """It is reported with what came."""
    cases = [(*case[:3], 200) for case in islice(CASES, 3, 5)]
    with running() as found:
        server = Here("kit", "Embedding Kit", [], found.address[1], "/ready")
        result = asyncio.run(soak(server, iter(cases), clients=1))
    assert [line[:30] for line in result.wrong] == [
        "POST /: 400, expected 200: b'{",
        "GET /nothing: 404, expected 20",
    ]
