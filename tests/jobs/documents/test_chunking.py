"""Blocks to chunks: sizes, lines, overlap, and what a change moves."""

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedder.core.engine import Engine
from embedder.core.search import passage
from jobs.documents.chunking import Chunker
from jobs.documents.document import Block, Outline, RefusedDocumentError
from jobs.documents.text import read_text
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of

TOKENS = 60


def make_chunker(overlap: int, tokens: int = TOKENS) -> Chunker:
    engine = Engine(manifest_of(max_tokens=128), WordTokenizer(), HashSession())
    return Chunker(engine.request_tokenizer, tokens=tokens, overlap=overlap)


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
def test_chunks_are_well_filled_and_overlap_by_some_tokens(longest):
    """Half full on average: a vector costs the same for any length."""
    rng = random.Random(longest)
    texts = [paragraph(rng, rng.randint(1, longest)) for _ in range(4000 // longest)]
    chunks = list(make_chunker(0).chunks(map(Block, texts)))
    assert sum(chunk.tokens for chunk in chunks) / len(chunks) >= TOKENS / 2
    overlapping = list(make_chunker(20).chunks(map(Block, texts)))
    repeated = sum(chunk.tokens for chunk in overlapping) - sum(chunk.tokens for chunk in chunks)
    assert 0 < repeated <= 20 * len(overlapping)


class LetterTokenizer(WordTokenizer):
    """A tokenizer with a token for each four letters of a word."""

    def encode(self, text: str) -> list[int]:
        """Return their ids."""
        quarters = [
            word[start : start + 4] for word in text.split() for start in range(0, len(word), 4)
        ]
        return super().encode(" ".join(quarters))


#: Texts with long and short lines, sentences of several scripts, indentation and blank lines.
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([" ", "\n", "\n", "\n \n", "\n    ", "\t", ". ", '." ', "。", "」", "\f"]),
        st.text("ab漢é\U0001f600", min_size=1, max_size=12),
        st.integers(1, 300).map(lambda number: "x" * number),
    ),
    max_size=100,
).map(lambda pieces: f"a{''.join(pieces)}b".replace("\f", "\n"))


@settings(deadline=None)
@given(
    blocks=st.lists(TEXTS, min_size=1, max_size=4),
    headings=st.lists(TEXTS, max_size=3).map(
        lambda names: tuple(map(" ".join, map(str.split, names)))
    ),
    tokens=st.integers(8, 118),
    overlaps=st.booleans(),
    prompt=st.sampled_from(["", "a prompt of documents "]),
)
def test_a_chunk_is_a_slice_of_the_document_that_fits_with_its_headings(
    blocks, headings, tokens, overlaps, prompt
):
    """No character but white space is lost, and no line that fits a chunk is cut."""
    tokenizer = LetterTokenizer()
    manifest = manifest_of(max_tokens=128, prompts={"document": prompt})
    engine = Engine(manifest, tokenizer, HashSession())
    overlap = tokens // 2 if overlaps else 0
    chunker = Chunker(engine.request_tokenizer, tokens=tokens, overlap=overlap)
    chunks = list(chunker.chunks(Block(text, headings) for text in blocks))
    # Those that do not fit above a text are a paragraph of it.
    above = chunks[0].headings if chunks else headings
    long = "\n".join(name for name in headings if name not in above)
    source, end = "\n\n".join(filter(None, [long, *blocks])), 0
    for chunk in chunks:
        embedded = passage(chunk.text, {"headings": " > ".join(chunk.headings)})
        assert chunk.tokens == len(tokenizer.encode(chunk.text)) <= tokens
        assert len(tokenizer.encode(prompt + embedded)) <= 126
        assert not headings or headings[-1].startswith(chunk.headings[-1])
        assert chunk.text in source
        if overlaps:
            continue
        start = source.index(chunk.text, end)
        assert not source[end:start].strip()
        end = start + len(chunk.text)
        line = source[source.rfind("\n", 0, end) + 1 :].partition("\n")[0]
        at_end = not source[end:].partition("\n")[0].strip()
        assert at_end or headings or len(tokenizer.encode(line)) > tokens
    assert overlaps or not source[end:].strip()


FENCE = {"opening": "```python", "closing": "```"}
TABLE = "| a | b |\n|---|---|"
#: A row that has as many tokens as a chunk.
ROW = f"| {'long ' * 18}|"


@pytest.mark.parametrize(
    ("text", "lines", "tokens", "chunks"),
    [
        (
            "def f(a):\n    if a:\n        return 'A. B. C'\n\n    return 1 2 3 4\n# end. of it.",
            {},
            8,
            [
                "def f(a):\n    if a:",
                "        return 'A. B. C'",
                "    return 1 2 3 4",
                "# end. of it.",
            ],
        ),
        (
            "one two. three four five. six seven! 'eight nine ten.' And others",
            {},
            10,
            ["one two. three four five. six seven!", "'eight nine ten.' And others"],
        ),
        (
            f"{'一' * 15}。「{'二' * 13}。」{'三' * 15}？{'四' * 15}",
            {},
            8,
            [f"{'一' * 15}。「{'二' * 13}。」", f"{'三' * 15}？{'四' * 15}"],
        ),
        ("a\xad\u200bb\0 c d e\u2028f g h\x0b\u202e i j", {}, 8, ["ab c d e", "f g h\n i j"]),
        ("x" * 50, {}, 8, ["x" * 25] * 2),
        (f"a {'x' * 32} b", {}, 8, ["a", "x" * 32, "b"]),
        (
            "```python\na b c d\n  e f g\n\nh i j k\n```",
            FENCE,
            12,
            ["```python\na b c d\n```", "```python\n  e f g\n\nh i j k\n```"],
        ),
        # A row that fits a chunk without the header is not cut.
        (
            "\n".join([TABLE, "| 1 | 2 |", "| 3 | 4 |", ROW, "| 5 | 6 |"]),
            {"opening": TABLE},
            20,
            [f"{TABLE}\n| 1 | 2 |\n| 3 | 4 |", ROW, f"{TABLE}\n| 5 | 6 |"],
        ),
        # But the header is not lost.
        (f"{TABLE}\n{ROW}\n{ROW}", {"opening": TABLE}, 20, [TABLE, ROW, ROW]),
        # A header that is longer than half of a chunk is not repeated.
        (
            "\n".join([TABLE, "| 1 | 2 |", "| 3 | 4 |"]),
            {"opening": TABLE},
            12,
            [TABLE, "| 1 | 2 |\n| 3 | 4 |"],
        ),
    ],
)
def test_each_piece_of_a_block_has_its_lines(text, lines, tokens, chunks):
    """Code its fence and its indentation, a table its header, and a sentence its white space."""
    engine = Engine(manifest_of(max_tokens=128), LetterTokenizer(), HashSession())
    chunker = Chunker(engine.request_tokenizer, tokens=tokens, overlap=0)
    made = list(chunker.chunks([Block("before"), Block(text, **lines), Block("after")]))
    assert [chunk.text for chunk in made] == ["before", *chunks, "after"]
    assert [chunk.piece for chunk in made] == [0, *range(1, len(chunks) + 1), 0]


def test_a_header_of_half_a_chunk_has_no_place_for_an_overlap_of_half():
    """The rows share what is left."""
    header, rows = " ".join("abcdefgh"), [f"row {number}" for number in range(20)]
    block = Block("\n".join([header, *rows]), opening=header)
    for chunk in (chunks := list(make_chunker(8, 16).chunks([block]))):
        assert chunk.text.startswith(f"{header}\nrow ")
        assert chunk.tokens <= 16
    assert set(rows) <= {line for chunk in chunks for line in chunk.text.split("\n")}


@pytest.mark.parametrize("line", ["\n", " \t\n"])
def test_blank_lines_take_the_memory_of_their_text(line):
    """A pattern that repeats a group takes 120 bytes for each, 4 GB for a file of line breaks."""
    text, outline = line * 100_000, Outline()
    tracemalloc.start()
    read_text(f"{text}a\n{text}b", outline)
    blocks = [*outline.blocks, Block(f"{text}a {'long ' * 20}{text}b")]
    chunks = [chunk.text for chunk in make_chunker(0, 16).chunks(blocks)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (chunks[0], chunks[-1]) == ("a\n\nb", "b")
    assert peak < 4_000_000


@pytest.mark.parametrize(("words", "chunks"), [(4, 0), (5, 1)])
def test_a_short_introduction_begins_the_chunk_that_it_introduces(words, chunks):
    """Alone, it would answer nothing; it has the place of an overlap."""
    introduction, rows = " ".join("abcde"[:words]), "\n".join(f"row {n}" for n in range(20))
    made = list(make_chunker(4, 16).chunks([Block(introduction), Block(rows)]))
    assert made[chunks].text.endswith("row 0\nrow 1\nrow 2")
    assert made[0].text.startswith(introduction)
    assert [chunk.text for chunk in made].count(introduction) == chunks


def test_a_paragraph_of_too_many_lines_is_refused(monkeypatch):
    """Each takes memory; one at the limit is divided."""
    monkeypatch.setattr("jobs.documents.chunking._MAX_UNITS", 20)
    assert list(make_chunker(0, 8).chunks([Block("a row\n" * 20)]))
    with pytest.raises(RefusedDocumentError, match="more than 20 lines or sentences"):
        list(make_chunker(0, 8).chunks([Block("a row\n" * 21)]))
