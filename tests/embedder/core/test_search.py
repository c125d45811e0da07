"""The search index that is deployed with the model."""

import json
from pathlib import Path

import numpy as np
import pytest

from embedder.core.errors import IndexFolderError
from embedder.core.search import DenseIndex, load_index

SPACE = "model@1/int8/abc/2"


def write(folder: Path, **changes: object) -> Path:
    """Write an index of three entries; `changes` replace parts of its manifest or its files."""
    manifest = {"format_version": 1, "vector_space": SPACE, "count": 3}
    manifest |= {key: value for key, value in changes.items() if key in manifest}
    texts = changes.get("texts", ["east", "north", "north-east"])
    vectors = changes.get("vectors", np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "entries.json").write_text(json.dumps(texts))
    np.save(folder / "vectors.npy", vectors)  # type: ignore[arg-type]
    return folder


def test_the_most_similar_come_first(tmp_path):
    """Matches have text, position and cosine, sorted by cosine."""
    index = load_index(write(tmp_path), spaces=["other/2", SPACE])
    matches = index.search(np.array([1, 0], dtype=np.float32), 2)
    assert [(match.text, match.position) for match in matches] == [("east", 0), ("north-east", 2)]
    assert [match.score for match in matches] == pytest.approx([1, 0.6])


@pytest.mark.parametrize("wanted", [1, 2, 3, 10])
def test_a_large_index_gives_its_most_similar_entries(wanted):
    """The result is the same as with a full sort, even for a single match."""
    random = np.random.default_rng(11)
    vectors = random.standard_normal((5000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = DenseIndex([str(number) for number in range(5000)], vectors, SPACE)
    for query in vectors[:20] + np.float32(0.1):
        expected = np.argsort(-(vectors @ query), kind="stable")[:wanted].tolist()
        assert [match.position for match in index.search(query, wanted)] == expected


def test_more_than_there_are_is_all(tmp_path):
    """An empty index is valid, and finds nothing."""
    query = np.array([0, 1], dtype=np.float32)
    assert len(load_index(write(tmp_path), spaces=[SPACE]).search(query, 100)) == 3
    vectors = np.zeros((0, 2), dtype=np.float32)
    empty = load_index(write(tmp_path, count=0, texts=[], vectors=vectors), spaces=[SPACE])
    assert empty.search(query, 3) == []


def test_equal_scores_come_in_the_order_of_the_index():
    """Entries with equal scores are sorted by position, so that results are deterministic."""
    vectors = np.tile(np.array([[1, 0]], dtype=np.float32), (50, 1))
    index = DenseIndex([str(number) for number in range(50)], vectors, SPACE)
    matches = index.search(np.array([1, 0], dtype=np.float32), 50)
    assert [match.position for match in matches] == list(range(50))


def test_equal_scores_at_the_cut_give_no_more_results_than_wanted():
    """The best entry comes first, and then the first of those that are equal."""
    vectors = np.array([[0.6, 0.8]] * 3 + [[1, 0]], dtype=np.float32)
    index = DenseIndex(list("abcd"), vectors, SPACE)
    matches = index.search(np.array([1, 0], dtype=np.float32), 2)
    assert [match.position for match in matches] == [3, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "has format_version 2; this embedder reads 1"),
        ({"vector_space": "m@1/fp32/x/2"}, "has m@1/fp32/x/2 vector_space; the model serves"),
        ({"count": 4}, "has 3 entries; its manifest says 4"),
        ({"texts": ["a"]}, "has 1 entries"),
        ({"texts": [1, 2, 3]}, "must be a list of strings"),
        ({"vectors": np.zeros((3, 2))}, "must be float32 .*found float64"),
        ({"vectors": np.zeros(3, dtype=np.float32)}, r"found float32 \(3,\)"),
        ({"vectors": np.zeros((3, 4), dtype=np.float32)}, r"shape \(3, 4\)"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(tmp_path, changes, message):
    """The index is refused at load, and the error explains the mismatch."""
    with pytest.raises(IndexFolderError, match=message):
        load_index(write(tmp_path, **changes), spaces=[SPACE])


def test_a_manifest_that_is_no_object_is_named(tmp_path):
    """It is JSON, but a list."""
    (write(tmp_path) / "manifest.json").write_text("[]")
    with pytest.raises(IndexFolderError, match=r"manifest\.json must be a JSON object"):
        load_index(tmp_path, spaces=[SPACE])


def test_an_altered_header_is_named(tmp_path):
    """Without its last bracket it is no Python, which numpy reads there."""
    path = write(tmp_path) / "vectors.npy"
    path.write_bytes(path.read_bytes().replace(b"}", b"{", 1))
    with pytest.raises(IndexFolderError, match=r"vectors\.npy cannot be read as an array"):
        load_index(tmp_path, spaces=[SPACE])


@pytest.mark.parametrize("name", ["manifest.json", "entries.json", "vectors.npy"])
def test_a_missing_or_broken_file_is_named(tmp_path, name):
    """The error names the file, whether it is missing or invalid."""
    write(tmp_path)
    (tmp_path / name).write_bytes(b"\x00garbage")
    with pytest.raises(IndexFolderError, match=name):
        load_index(tmp_path, spaces=[SPACE])
    (tmp_path / name).unlink()
    with pytest.raises(IndexFolderError, match=name):
        load_index(tmp_path, spaces=[SPACE])
