"""Writing rows and vectors to files."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow.parquet
import pytest

from embedding_client import FileError
from embedding_client.writers import WRITERS, Table, check_parquet, json_line, numbers

VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


def written(suffix, rows, vectors, *, dtype=np.float32, width=2):
    table = Table(
        rows=len(rows),
        pairs=lambda: zip(rows, vectors, strict=True),
        width=width,
        dtype=np.dtype(dtype),
        vector_space="m@1/x/2",
    )
    file = io.BytesIO()
    WRITERS[suffix](file, table)
    return io.BytesIO(file.getvalue())


def test_parquet_has_all_fields_of_all_rows():
    """Even if the first rows lack a field, or integers are followed by a fraction."""
    kinds: list[dict[str, object]] = [
        {"text": "a"},
        {"text": "b", "n": 1},
        {"text": "c", "n": 0.5, "tags": ["x"]},
    ]
    rows = kinds * 2000
    vectors = [*VECTORS] * 2000
    table = pyarrow.parquet.read_table(written(".parquet", rows, vectors))
    expected = [{"text": r["text"], "n": r.get("n"), "tags": r.get("tags")} for r in rows]
    assert table.drop(["embedding"]).to_pylist() == expected
    assert np.array_equal(np.stack(table["embedding"].to_numpy()), np.stack(vectors))
    assert table.schema.metadata == {b"vector_space": b"m@1/x/2"}


def test_parquet_may_have_nulls_or_no_rows():
    """A missing vector is null. A file without rows has the columns."""
    table = pyarrow.parquet.read_table(written(".parquet", [{"t": "a"}] * 2, [None, VECTORS[0]]))
    assert table["embedding"].to_pylist() == [None, [0.0, 1.0]]
    empty = pyarrow.parquet.read_table(written(".parquet", [], [], width=0))
    assert (empty.num_rows, empty.column_names) == (0, ["embedding"])


@pytest.mark.parametrize(
    "rows", [[{"n": 1}, {"n": "one"}], [{"n": 1}] * 5000 + [{"n": "one"}], [{"n": "\ud800"}]]
)
def test_incompatible_rows_are_refused_for_parquet(rows):
    """The message recommends .jsonl."""
    with pytest.raises(FileError, match=r"do not fit into one Parquet table: .*Write \.jsonl"):
        check_parquet(rows)


def test_json_lines_escape_lone_surrogates():
    """A lone surrogate in another field is preserved."""
    (line,) = written(".jsonl", [{"text": "é", "note": "\ud800"}], [VECTORS[1]])
    assert json.loads(line) == {
        "text": "é",
        "note": "\ud800",
        "embedding": [2.0, 3.0],
        "vector_space": "m@1/x/2",
    }


def test_json_lines_have_null_for_nan_and_infinity():
    """In other fields at any depth, because JSON does not have them."""
    row = {"text": "é", "price": float("nan"), "tags": [{"weight": float("-inf")}, 0.5]}
    (line,) = written(".jsonl", [row], [VECTORS[1]])
    found = json.loads(line, parse_constant=pytest.fail)
    assert (found["price"], found["tags"]) == (None, [{"weight": None}, 0.5])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8])
def test_arrays_can_be_loaded_by_numpy(dtype):
    """With the same type and values."""
    vectors = VECTORS.astype(dtype)
    array = np.load(written(".npy", [{}] * 3, vectors, dtype=dtype))
    assert array.dtype == dtype
    assert np.array_equal(array, vectors)


@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet"])
def test_fewer_vectors_than_rows_are_an_error(suffix):
    """A row is never written with the vector of another row."""
    with pytest.raises(ValueError, match="shorter"):
        written(suffix, [{"text": "a"}] * 3, VECTORS[:2])


def test_numbers_have_their_shortest_exact_form():
    """Decimals preserve the float32 value; integers remain integers."""
    vector = np.array([0.1, 1 / 3, 1e-30], np.float32)
    assert json.dumps(numbers(vector)) == "[0.1, 0.33333334, 1e-30]"
    assert np.array_equal(np.array(numbers(vector), np.float32), vector)
    assert numbers(np.array([-128, 127], np.int8)) == [-128, 127]


def test_values_that_json_does_not_have_become_text():
    """Bytes in base64, also within lists and objects; dates and decimals as they are written."""
    row = {
        "bytes": b"\x00\xff",
        "images": [{"bytes": b"a", "path": None}],
        "at": datetime(2026, 11, 23, tzinfo=UTC),
        "price": Decimal("1.50"),
        "rate": float("nan"),
    }
    assert json.loads(json_line(row, None, None)) == {
        "bytes": "AP8=",
        "images": [{"bytes": "YQ==", "path": None}],
        "at": "2026-11-23 00:00:00+00:00",
        "price": "1.50",
        "rate": None,
        "embedding": None,
        "vector_space": None,
    }
