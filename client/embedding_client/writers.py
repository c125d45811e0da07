"""Writes rows and their vectors as JSONL, Parquet or .npy."""

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from embedding_client.errors import FileError
from embedding_client.readers import Record

__all__ = ["ADDED", "WRITERS", "Table", "check_parquet", "json_line", "numbers"]

#: The fields that each format adds to a row.
ADDED = {".jsonl": ("embedding", "vector_space"), ".parquet": ("embedding",), ".npy": ()}
_CHUNK = 4096

_Pair = tuple[Record, npt.NDArray[Any] | None]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The content of an output.

    Attributes:
        rows: The number of rows.
        pairs: Returns a new iterator over the rows, each with its vector, or None for null.
        width: The number of components of a vector.
        dtype: The type of the components.
        vector_space: The vector space, or None if there are no vectors.
    """

    rows: int
    pairs: Callable[[], Iterator[_Pair]]
    width: int
    dtype: np.dtype[Any]
    vector_space: str | None


def numbers(vector: npt.NDArray[Any]) -> list[float] | list[int]:
    """Return the components for JSON, as the shortest decimals that preserve the float32 values."""
    if vector.dtype == np.float32:
        return [float(text) for text in map(str, vector)]
    return [int(number) for number in vector]


def json_line(row: Record, vector: npt.NDArray[Any] | None, vector_space: str | None) -> bytes:
    """Return a row and its vector as a line of JSON."""
    added = {"embedding": None if vector is None else numbers(vector), "vector_space": vector_space}
    fields = {**row, **added}
    try:
        line = json.dumps(fields, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:  # JSON has no NaN and infinity, which Parquet columns may hold
        line = json.dumps(_finite(fields), ensure_ascii=False, default=_plain)
    try:
        return line.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate in another field, which JSON can escape
        return json.dumps(json.loads(line)).encode() + b"\n"


def check_parquet(records: Iterable[Record]) -> None:
    """Check that rows fit into one Parquet table, before they are embedded.

    Raises:
        FileError: If pyarrow is missing, or the values of a column have incompatible types.
    """
    _schema(records)


def _jsonl(file: IO[bytes], table: Table) -> None:
    file.writelines(json_line(row, vector, table.vector_space) for row, vector in table.pairs())


def _npy(file: IO[bytes], table: Table) -> None:
    header = {
        "descr": table.dtype.newbyteorder("<").str,
        "fortran_order": False,
        "shape": (table.rows, table.width),
    }
    np.lib.format.write_array_header_1_0(file, header)
    null = np.full(table.width, math.nan, np.float32)
    for _, vector in table.pairs():
        file.write((null if vector is None else vector).astype(table.dtype).tobytes())


def _parquet(file: IO[bytes], table: Table) -> None:
    arrow = _arrow()
    schema = _schema(row for row, _ in table.pairs())
    kind = arrow.list_(arrow.from_numpy_dtype(table.dtype), table.width)
    whole = schema.append(arrow.field("embedding", kind)).with_metadata(
        {"vector_space": table.vector_space or ""}
    )
    zeros = np.zeros(table.width, table.dtype)
    pairs = table.pairs()
    # Floats rarely repeat, so a dictionary would only take space.
    writer = arrow.parquet.ParquetWriter(file, whole, use_dictionary=schema.names)
    while chunk := list(islice(pairs, _CHUNK)):
        columns = [
            arrow.array([row.get(field.name) for row, _ in chunk], field.type) for field in schema
        ]
        flat = np.concatenate([zeros if vector is None else vector for _, vector in chunk])
        mask = arrow.array([vector is None for _, vector in chunk])
        vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(flat), type=kind, mask=mask)
        writer.write_table(arrow.Table.from_arrays([*columns, vectors], schema=whole))
    writer.close()


#: The writer for each extension. It writes a table to a binary file.
WRITERS: dict[str, Callable[[IO[bytes], Table], None]] = {
    ".jsonl": _jsonl,
    ".parquet": _parquet,
    ".npy": _npy,
}


def _plain(value: object) -> str:
    """Return the text for a value that JSON does not have: bytes in base64, dates and decimals."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity with None."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _schema(records: Iterable[Record]) -> Any:
    """Return the schema of all rows. A field that a row lacks is null."""
    arrow = _arrow()
    schema = arrow.schema([])
    records = iter(records)
    try:
        while chunk := list(islice(records, _CHUNK)):
            names = dict.fromkeys(name for row in chunk for name in row)
            columns = {name: arrow.array([row.get(name) for row in chunk]) for name in names}
            schema = arrow.unify_schemas(
                [schema, arrow.table(columns).schema], promote_options="permissive"
            )
    except (arrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise FileError(
            f"The rows do not fit into one Parquet table: {error}. Write .jsonl instead."
        ) from error
    return schema


def _arrow() -> Any:
    try:
        import pyarrow as arrow  # noqa: PLC0415  (an extra)
        import pyarrow.parquet  # noqa: PLC0415  (an extra)
    except ImportError:
        raise FileError("Parquet needs pyarrow: pip install 'embedding-client[parquet]'.") from None
    return arrow
