"""Blocks to chunks: sizes, overlap, and what a change moves."""

import random

import pytest

from embedder.core.engine import Engine
from jobs.documents.chunking import Chunker
from jobs.documents.document import Block
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of

TOKENS = 60


def make_chunker(overlap: int) -> Chunker:
    engine = Engine(manifest_of(max_tokens=128), WordTokenizer(), HashSession())
    return Chunker(engine.request_tokenizer, tokens=TOKENS, overlap=overlap)


def paragraph(rng: random.Random, words: int) -> str:
    vocabulary = [f"w{rng.randrange(10**6)}" + "." * (n % 8 == 7) for n in range(words)]
    return " ".join(vocabulary)


@pytest.mark.parametrize("longest", [8, 30, 58, 90, 150])
def test_a_changed_paragraph_changes_three_chunks_at_most(longest):
    """Of 200, in 19 of 20 changes and never over 6, also where a paragraph has three chunks."""
    rng = random.Random(longest)
    texts = [paragraph(rng, rng.randint(longest // 2, longest)) for _ in range(12_000 // longest)]
    chunker = make_chunker(8)

    def chunks() -> set[str]:
        return {chunk.text for chunk in chunker.chunks(map(Block, texts))}

    before, counts = chunks(), []
    assert len(before) >= 180
    for _ in range(20):
        texts[rng.randrange(len(texts))] = paragraph(rng, rng.randint(longest // 2, longest))
        after = chunks()
        counts.append(len(after - before))
        before = after
    assert min(counts) >= 1
    assert sum(count <= 3 for count in counts) >= 19
    assert max(counts) <= 6


@pytest.mark.parametrize("longest", [1, 30, 150])
def test_chunks_fit_and_have_the_whole_text(longest):
    """In its order; with overlap, each begins with some of the one before it."""
    rng = random.Random(longest)
    texts = [paragraph(rng, rng.randint(1, longest)) for _ in range(4000 // longest)]
    chunks = list(make_chunker(0).chunks(map(Block, texts)))
    assert " ".join(chunk.text for chunk in chunks).split() == " ".join(texts).split()
    assert max(chunk.tokens for chunk in chunks) <= TOKENS
    # Half full on average: a vector costs the same for any length.
    assert sum(chunk.tokens for chunk in chunks) / len(chunks) >= TOKENS / 2
    overlapping = list(make_chunker(20).chunks(map(Block, texts)))
    assert max(chunk.tokens for chunk in overlapping) <= TOKENS
    repeated = sum(chunk.tokens for chunk in overlapping) - sum(chunk.tokens for chunk in chunks)
    assert 0 < repeated <= 20 * len(overlapping)
