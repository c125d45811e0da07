"""The soak's requests: the same for the same seed, and enough to fill the word cache."""

from itertools import islice

from embedder.core.artifact import Artifact
from embedder.core.fast_tokenizers import load
from embedder.core.fast_tokenizers.memo import WordMemo
from tools.bench.soak import FILLING, FILLING_WORDS, cases

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
