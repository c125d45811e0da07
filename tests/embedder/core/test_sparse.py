"""The local sparse index: its scores are the exact product of the impacts."""

import numpy as np
import pytest

from embedder.core.sparse import MAX_IMPACT, SparseIndex, TokenWeights, make_postings

VOCABULARY, ENTRIES = 500, 2000


def drawn(random: np.random.Generator, terms: int) -> TokenWeights:
    """Draw a vector with tokens as frequent as words are."""
    tokens = np.unique(np.minimum(random.zipf(1.3, terms) - 1, VOCABULARY - 1))
    return TokenWeights(tokens.astype(np.uint32), random.gamma(2, 0.4, len(tokens)).astype("f4"))


@pytest.mark.parametrize("seed", range(3))
def test_the_best_are_those_of_the_exact_product(seed):
    """Of the dense product of the query with scaled impacts, in float64, in order of position."""
    random = np.random.default_rng(seed)
    vectors = [drawn(random, 60) for _ in range(ENTRIES)]
    postings = make_postings(vectors, vocabulary=VOCABULARY)
    index = SparseIndex([f"{number}" for number in range(ENTRIES)], postings, "space")
    impacts = np.zeros((ENTRIES, VOCABULARY))
    for token in range(VOCABULARY):
        postings_of = slice(postings.starts[token], postings.starts[token + 1])
        impacts[postings.entries[postings_of], token] = postings.impacts[postings_of]
    products = impacts * postings.scales.astype(np.float64)
    for vector, row in zip(vectors, products, strict=True):
        weights = np.zeros(VOCABULARY)
        weights[vector.indices] = vector.values
        # Half a step, or a whole one for a weight that would round to 0.
        steps = np.abs(weights - row) / np.maximum(postings.scales, 1e-9)
        assert steps.max() < 1
        # A float32 of 65,535 steps has an error of some thousandths of a step.
        assert steps[weights > postings.scales].max() < 0.51
        assert np.array_equal(row > 0, weights > 0)
    for _ in range(20):
        query = drawn(random, 20)
        dense = np.zeros(VOCABULARY)
        dense[query.indices] = query.values
        exact = products @ dense
        matches = index.search(query, 10)
        assert [match.score for match in matches] == pytest.approx(np.sort(exact)[::-1][:10])
        assert [exact[match.position or 0] for match in matches] == pytest.approx(
            [match.score for match in matches]
        )


def test_equal_scores_are_in_index_order_and_others_are_left_out():
    """An entry without a token of the query is not found, however many are asked for."""
    vector = TokenWeights(np.array([3], np.uint32), np.array([2], np.float32))
    none = TokenWeights(np.array([4], np.uint32), np.array([1], np.float32))
    empty = TokenWeights(np.array([], np.uint32), np.array([], np.float32))
    postings = make_postings([vector, none, vector, empty, vector], vocabulary=6)
    assert postings.impacts.tolist() == [MAX_IMPACT] * 4
    index = SparseIndex(list("abcde"), postings, "space")
    assert [match.text for match in index.search(vector, 10)] == ["a", "c", "e"]
    assert [match.text for match in index.search(vector, 2)] == ["a", "c"]
    assert index.search(vector, 1)[0].score == pytest.approx(4)
    assert index.search(empty, 10) == []
