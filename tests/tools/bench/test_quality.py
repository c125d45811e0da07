"""The search that shows what a precision costs."""

import json
import math

import numpy as np
import pytest

from tools.bench.quality import SearchTask, corpus, interval, read_pairs, scores

SOURCE = '''
def first_long_name():
    """Open the file and read it. It is closed at the end. {padding}"""

def second_long_name():
    """Write the file and close it. Nothing is returned. {padding}"""

def _private():
    """Not a document. It is private. {padding}"""

def short():
    """Too short. Not a document."""
'''


def test_a_document_lacks_the_sentence_that_asks_for_it(tmp_path):
    """Otherwise equal words alone would find it; the other queries are names in words."""
    padding = "This sentence is only here " + "for the length, " * 6 + "and ends."
    (tmp_path / "module.py").write_text(SOURCE.replace("{padding}", padding))
    found = corpus(tmp_path, 10)
    assert len(found.documents) == 2
    by_sentence, by_name = found.queries
    assert by_sentence not in found.documents[0]
    assert by_name in {"module first long name", "module second long name"}
    assert found.relevant == [frozenset([0]), frozenset([1])]


def test_documents_without_a_query_are_searched_too(tmp_path):
    """They can be found instead of the right one."""
    (tmp_path / "module.py").write_text(SOURCE.replace("{padding}", "More text is here. " * 6))
    found = corpus(tmp_path, 1)
    assert (len(found.queries), len(found.documents)) == (1, 2)


def test_scores_are_those_of_the_formulas():
    """Ranks 1 and 3 of two relevant documents; then a document that is not among the first 10."""
    documents = np.array([[math.cos(a), math.sin(a)] for a in np.arange(12) / 12], np.float32)
    queries = documents[[0, 11]]
    search = SearchTask(["a", "b"], ["text"] * 12, [frozenset([0, 2]), frozenset([0])])
    ndcg, recall = scores(queries, documents, search)
    assert ndcg == pytest.approx([(1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3)), 0])
    assert recall.tolist() == [1, 0]


def test_the_interval_contains_the_mean_and_narrows_with_the_queries():
    """Differences of ±0.1 have a mean of 0; its standard error is 0.1 / √n."""
    few, many = (interval(np.tile([0.1, -0.1], n // 2)) for n in (100, 10_000))
    assert few == pytest.approx((-0.0196, 0.0196), abs=0.002)
    assert many == pytest.approx((-0.00196, 0.00196), abs=0.0002)


def test_pairs_of_one_query_are_one_search(tmp_path):
    """A document that several queries should find is searched once."""
    path = tmp_path / "pairs.jsonl"
    pairs = [("a", "x"), ("a", "y"), ("b", "x")]
    path.write_text("".join(json.dumps({"query": q, "document": d}) + "\n" for q, d in pairs))
    assert read_pairs(path) == SearchTask(
        ["a", "b"], ["x", "y"], [frozenset([0, 1]), frozenset([0])]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query": "a", "document": "b"}\n{"query": "a"}\n', r"pairs:2 must be .*; found: {"),
        ('{"query": " ", "document": "b"}\n', "pairs:1 must be an object with the texts query"),
        ('["a", "b"]\n', r'found: \["a", "b"\]'),
        ("no JSON\n", "found: no JSON"),
        ("", "must have at least one line; found: none"),
    ],
)
def test_a_line_that_is_no_pair_is_refused(tmp_path, text, message):
    """By its number, with what was found."""
    path = tmp_path / "pairs"
    path.write_text(text)
    with pytest.raises(SystemExit, match=message):
        read_pairs(path)
