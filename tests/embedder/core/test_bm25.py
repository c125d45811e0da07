"""BM25 in the index of an image: its words, and its scores against the formula."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.bm25 import _SPACED, WordIndex, make_word_index, words

_WORDS = ["violin", "violins", "string", "弦楽", "strings", "a", "I", "the", "été"]
_TEXT = st.lists(st.sampled_from(_WORDS)).map(" ".join)


def index_of(texts: list[str]) -> WordIndex:
    hashes, postings = make_word_index(texts)
    return WordIndex(texts, postings, "space", words=hashes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Re-index pg_dump's 2 TABLES!", "re index pg_dump s 2 table"),
        ("queries, indexes and classes; bus, class", "query index and class bus class"),
        # Composed and decomposed letters, ligatures and full-width letters are the same.
        ("cafe\u0301 caf\u00e9 \ufb01le \uff21", "caf\u00e9 caf\u00e9 file a"),
        ("STRASSE Stra\u00dfe \u0130", "strasse strasse i\u0307"),
        # Vowel signs are parts of words.
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e", None),
        # Without spaces, each pair of letters is a word.
        ("東京タワーabc猫", "東京 京タ タワ ワー abc 猫"),
        ("한국어 문서", None),
        ("?! \u200b \U0001f3bb", ""),
    ],
)
def test_words_of_many_scripts(text, expected):
    """None: the text is split at its spaces alone."""
    assert [*words(text)] == (text if expected is None else expected).split()


@given(st.lists(_TEXT, min_size=1, max_size=8), _TEXT)
def test_scores_are_those_of_the_formula(texts, query):
    """Of an entry that has a word of the query; others, and unknown words, score nothing."""
    counts = [Counter(words(text)) for text in texts]
    mean = max(sum(map(Counter.total, counts)) / len(texts), 1)
    expected = {}
    for position, count in enumerate(counts):
        length = 0.25 + 0.75 * count.total() / mean
        scores = []
        for word in words(query):
            having = sum(word in entry for entry in counts)
            rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            scores.append(rarity * count[word] / (count[word] + 1.5 * length))
        if sum(scores):
            expected[position] = sum(scores)
    index = index_of(texts)
    matches = index.search(index.weights(f"{query} xylophone"), len(texts))
    assert {match.position: match.score for match in matches} == pytest.approx(expected, rel=1e-4)


def test_queries_leave_little_memory():
    """A caller that sends all of Unicode, bit by bit, fills no table with it."""
    assert len([*words("".join(map(chr, range(0x10000, 0x30000))))]) > 1000
    assert max(_SPACED) <= 0xFFFF


def test_texts_without_words():
    """An index of signs alone is made, and finds nothing."""
    index = index_of(["?!", "..."])
    assert index.search(index.weights("violin ?!"), 5) == []
