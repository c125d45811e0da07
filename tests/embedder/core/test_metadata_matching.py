"""Filters of a local index."""

import random
from typing import Any

import numpy as np
import pytest

from embedder.core.errors import IndexFolderError
from embedder.core.metadata_matching import matches
from embedder.core.search import DenseIndex, EntryMetadata, load_index
from tests.embedder.core.test_search import SPACE, write
from tests.fixtures.s3_vectors.matching import matches as s3_matches

VALUES: list[Any] = [1, 2.5, True, False, "a", "1", 3]
EAST = np.array([1, 0], dtype=np.float32)


def operand(rng: random.Random, operator: str) -> Any:
    if operator in {"$in", "$nin"}:
        return rng.choices(VALUES, k=rng.randint(1, 3))
    if operator == "$exists":
        return rng.random() < 0.5
    return rng.choice([1, 2.5, 3] if operator.startswith(("$g", "$l")) else VALUES)


def made(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    if depth < 3 and rng.random() < 0.4:
        filters = [made(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        return {rng.choice(["$and", "$or"]): filters}
    key = rng.choice(["x", "y", "z"])
    if rng.random() < 0.2:
        return {key: rng.choice(VALUES)}
    names = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists"]
    return {key: {name: operand(rng, name) for name in rng.sample(names, rng.randint(1, 2))}}


def test_a_filter_matches_as_in_the_stand_in_of_s3_vectors():
    """Both follow AWS's page, and were written apart."""
    rng = random.Random(1)
    decisions = []
    for _ in range(4000):
        metadata = {
            key: rng.choices(VALUES, k=2) if rng.random() < 0.3 else rng.choice(VALUES)
            for key in rng.sample(["x", "y", "z"], rng.randint(0, 3))
        }
        where = made(rng)
        decisions.append(matches(where, metadata))
        assert decisions[-1] == s3_matches(where, metadata, non_filterable=()), (where, metadata)
    assert 800 < sum(decisions) < 3200


def test_only_matching_entries_are_found(tmp_path):
    """As many as wanted, with ids and metadata; the filter counts before the number does."""
    rows = [
        {"id": f"c{number}", "text": "t", "metadata": {"year": 2020 + number}}
        for number in range(3)
    ]
    index = load_index(write(tmp_path, texts=rows), spaces=[SPACE])
    assert index.takes_filter
    (match,) = index.search(EAST, 1, where={"year": {"$gte": 2021}})
    assert (match.id, match.metadata, match.position) == ("c2", {"year": 2022}, 2)
    assert index.search(EAST, 3, where={"year": 1}) == []
    assert [match.id for match in index.search(EAST, 3)] == ["c0", "c2", "c1"]


@pytest.mark.parametrize(
    "row",
    [
        "a text",
        {"id": "a", "text": "t"},
        {"id": 1, "text": "t", "metadata": {}},
        {"id": "a", "text": None, "metadata": {}},
        {"id": "a", "text": "t", "metadata": []},
    ],
)
def test_entries_of_another_form_are_refused(tmp_path, row):
    """All of them are texts, or objects of the three fields."""
    good = {"id": "a", "text": "t", "metadata": {}}
    with pytest.raises(IndexFolderError, match="or of objects with id, text and metadata"):
        load_index(write(tmp_path, texts=[good, good, row]), spaces=[SPACE])


def test_an_index_of_texts_takes_no_filter():
    """It has no metadata: the API refuses a filter."""
    vectors = np.array([[1, 0]], dtype=np.float32)
    assert not DenseIndex(["t"], vectors, SPACE).takes_filter
    assert DenseIndex(["t"], vectors, SPACE, [EntryMetadata("a", {})]).takes_filter
