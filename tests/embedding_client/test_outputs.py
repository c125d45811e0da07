"""Writing rows and vectors to files."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow.parquet
import pytest

from embedding_client import ConfigurationError, FileError
from embedding_client._outputs import WRITERS, Outputs, Table, json_line, numbers, parquet_schema

VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


def written(suffix, rows, vectors, *, dtype=np.float32, width=2):
    table = Table(
        pairs=zip(rows, vectors, strict=True),
        width=width,
        dtype=np.dtype(dtype),
        vector_space="m@1/x/2",
        schema=parquet_schema(rows) if suffix == ".parquet" else None,
    )
    file = io.BytesIO()
    assert WRITERS[suffix](file, table) == len(rows)
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
        parquet_schema(rows)


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


def test_values_that_json_does_not_have_become_text_or_null():
    """At any depth: bytes in base64, dates and decimals as written, no NaN, escaped surrogates."""
    row = {
        "bytes": b"\x00\xff",
        "images": [{"bytes": b"a", "weight": float("-inf")}, 0.5],
        "at": datetime(2026, 11, 23, tzinfo=UTC),
        "price": Decimal("1.50"),
        "rate": float("nan"),
        "note": "é\ud800",
    }
    assert json.loads(json_line(row, VECTORS[1], "m@1/x/2"), parse_constant=pytest.fail) == {
        "bytes": "AP8=",
        "images": [{"bytes": "YQ==", "weight": None}, 0.5],
        "at": "2026-11-23 00:00:00+00:00",
        "price": "1.50",
        "rate": None,
        "note": "é\ud800",
        "embedding": [2.0, 3.0],
        "vector_space": "m@1/x/2",
    }


REPORT = [{"row": 2, "error": "is blank"}]


def place(outputs, content=b"whole", *, report=()):
    def write(file):
        file.write(content)
        return {"count": 1}, list(report)

    outputs.place(write)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_files_are_named_after_the_output(tmp_path):
    """The files of two outputs have different names."""
    place(Outputs(tmp_path / "a.npy"), report=REPORT)
    assert names(tmp_path) == ["a.npy", "a.npy.errors.jsonl", "a.npy.json"]
    assert (tmp_path / "a.npy.errors.jsonl").read_text() == '{"row": 2, "error": "is blank"}\n'
    assert (tmp_path / "a.npy").read_bytes() == b"whole"


@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet"])
def test_every_writer_reports_a_full_disk(tmp_path, file_limit, suffix):
    """The output of before is unchanged, no other file remains, and a second attempt succeeds."""
    outputs = Outputs(tmp_path / f"a{suffix}")
    place(outputs, b"earlier")
    before = names(tmp_path)
    vectors = np.random.default_rng(5).random((3000, 8), np.float32)
    rows = [{"text": str(vector)} for vector in vectors]
    schema = parquet_schema(rows)

    def write(file):
        pairs = zip(rows, vectors, strict=True)
        WRITERS[suffix](file, Table(pairs, 8, vectors.dtype, "m@1/x/8", schema))
        return {}, []

    with file_limit(40_000), pytest.raises(FileError, match="cannot be written: File too large"):
        outputs.place(write)
    # So few bytes are in a buffer until the end.
    with file_limit(1000), pytest.raises(FileError, match="cannot be written: File too large"):
        place(outputs, b"x" * 5000)
    assert outputs.path.read_bytes() == b"earlier"
    assert names(tmp_path) == before
    outputs.place(write)
    assert outputs.path.stat().st_size > 40_000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.txt", r"must end in \.jsonl, \.parquet, \.npy"),
        ("none/a.npy", "in a folder that exists; found .*none"),
        ("folder.npy", "must name a file; found the folder .*folder.npy"),
    ],
)
def test_an_invalid_path_is_refused(tmp_path, name, message):
    """Before the input is read."""
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(ConfigurationError, match=message):
        Outputs(tmp_path / name)
