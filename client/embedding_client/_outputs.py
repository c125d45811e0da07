"""The files of a run: its output as JSONL, Parquet or .npy, and the checkpoint to resume from.

notes.npy               the vectors
notes.npy.json          a description of the array: vector space, count, source
notes.npy.errors.jsonl  the rows without a vector
notes.npy.part          the checkpoint of an unfinished run

The checkpoint begins with a line that identifies the format. The records after it are lines of
JSON:

    {"job": …}                                           the job that the vectors belong to
    {"rows": 64, "rejected": {"7": {…}}, "width": …}     followed by the vectors of 63 rows

A record that is incomplete is dropped when the file is opened, and its rows are embedded again.
"""

import base64
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from embedding_client._readers import TextSource
from embedding_client.errors import ConfigurationError, FileError
from embedding_client.rows import Fields

#: The fields that each format adds to a row.
ADDED = {".jsonl": ("embedding", "vector_space"), ".parquet": ("embedding",), ".npy": ()}
_CHUNK = 4096

#: The fields of a row, and its vector or None.
Pair = tuple[Fields, npt.NDArray[Any] | None]
_Described = tuple[dict[str, object], list[dict[str, object]]]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Table:
    """The content of an output: rows with vectors of one width and type, or None for null."""

    pairs: Iterator[Pair]
    width: int
    dtype: np.dtype[Any]
    vector_space: str | None
    schema: Any = None


def numbers(vector: npt.NDArray[Any]) -> list[float] | list[int]:
    """Return the components for JSON, as the shortest decimals that preserve the float32 values."""
    if vector.dtype == np.float32:
        return [float(text) for text in map(str, vector)]
    return [int(number) for number in vector]


#: Returns the bytes of a row, from its fields, its vector and the vector space.
AsLine = Callable[[Fields, "npt.NDArray[Any] | None", str | None], bytes]


def json_line(row: Fields, vector: npt.NDArray[Any] | None, vector_space: str | None) -> bytes:
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


def _jsonl(file: IO[bytes], table: Table) -> int:
    rows = 0
    for rows, (row, vector) in enumerate(table.pairs, 1):  # noqa: B007  (the count of all)
        file.write(json_line(row, vector, table.vector_space))
    return rows


def _npy(file: IO[bytes], table: Table) -> int:
    def write_header(rows: int) -> int:
        header = {
            "descr": table.dtype.newbyteorder("<").str,
            "fortran_order": False,
            "shape": (rows, table.width),
        }
        np.lib.format.write_array_header_1_0(file, header)
        return file.tell()

    # numpy pads the header so that the number of rows can grow in place.
    start = write_header(0)
    null = np.full(table.width, math.nan, np.float32)
    rows = 0
    for rows, (_, vector) in enumerate(table.pairs, 1):  # noqa: B007  (the count of all)
        file.write((null if vector is None else vector).astype(table.dtype).tobytes())
    file.seek(0)
    if write_header(rows) != start:
        raise AssertionError("the header of an array has grown")
    return rows


def _parquet(file: IO[bytes], table: Table) -> int:
    arrow = _arrow()
    vector_type = arrow.list_(arrow.from_numpy_dtype(table.dtype), table.width)
    schema = table.schema.append(arrow.field("embedding", vector_type)).with_metadata(
        {"vector_space": table.vector_space or ""}
    )
    zeros = np.zeros(table.width, table.dtype)
    rows = 0
    # Floats rarely repeat, so a dictionary would only take space.
    with arrow.parquet.ParquetWriter(file, schema, use_dictionary=table.schema.names) as writer:
        while chunk := list(islice(table.pairs, _CHUNK)):
            columns = [
                arrow.array([row.get(field.name) for row, _ in chunk], field.type)
                for field in table.schema
            ]
            flat = np.concatenate([zeros if vector is None else vector for _, vector in chunk])
            mask = arrow.array([vector is None for _, vector in chunk])
            vectors = arrow.FixedSizeListArray.from_arrays(
                arrow.array(flat), type=vector_type, mask=mask
            )
            writer.write_table(arrow.Table.from_arrays([*columns, vectors], schema=schema))
            rows += len(chunk)
    return rows


#: The writer for each extension. It writes a table to a binary file and returns the number of rows.
WRITERS: dict[str, Callable[[IO[bytes], Table], int]] = {
    ".jsonl": _jsonl,
    ".parquet": _parquet,
    ".npy": _npy,
}


def _plain(value: object) -> str:
    """Return the text for a value that JSON does not have: bytes in base64, dates and decimals."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parquet_schema(records: Iterable[Fields]) -> Any:
    """Return the schema of all rows, without the vectors. A field that a row lacks is null."""
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


class Outputs:
    """The files that belong to an output: its path, `about`, `report` and `part`, as above."""

    def __init__(self, path: Path) -> None:
        self.path, self.suffix = path, path.suffix.lower()
        if self.suffix not in WRITERS:
            raise ConfigurationError(
                f"--output must end in {', '.join(WRITERS)}, which sets its format; found: {path}."
            )
        if not path.parent.is_dir():
            raise ConfigurationError(
                f"--output must be in a folder that exists; found {path.parent}."
            )
        if path.is_dir():
            raise ConfigurationError(f"--output must name a file; found the folder {path}.")
        self.about, self.report, self.part = (
            path.with_name(path.name + ending) for ending in (".json", ".errors.jsonl", ".part")
        )
        self._temporary = path.with_name(f".{path.name}.tmp")

    def check(self, source: TextSource, *, overwrite: bool) -> None:
        """Check that the run will not destroy a file."""
        outputs = [self.path, self.report, *([self.about] if self.suffix == ".npy" else [])]
        for path in (*outputs, self.part, self._temporary):
            if source.is_same_file(path):
                raise FileError(
                    f"{path} is the input file and would be lost. Choose another --output."
                )
        for path in outputs:
            if os.path.lexists(path) and not overwrite:
                raise FileError(f"{path} already exists. Use --overwrite to replace it.")

    def place(self, write: Callable[[IO[bytes]], _Described]) -> None:
        """Write the output to a temporary file, then the other files, then move it into place."""
        try:
            about, report = _write(self._temporary, write)
            if self.suffix == ".npy":
                self._put(self.about, json.dumps(about, indent=1) + "\n")
            if report:
                self._put(self.report, "".join(json.dumps(row) + "\n" for row in report))
            else:
                self.report.unlink(missing_ok=True)
            self._temporary.replace(self.path)
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}.") from error
        finally:
            self._temporary.unlink(missing_ok=True)

    def _put(self, path: Path, text: str) -> None:
        temporary = self.path.with_name(f".{path.name}.tmp")
        try:
            _write(temporary, lambda file: file.write(text.encode()))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _write(path: Path, write: Callable[[IO[bytes]], _Result]) -> _Result:
    with path.open("wb") as file:
        result = write(file)
        file.flush()
        # Some file systems report a full disk only here.
        os.fsync(file.fileno())
    return result


_FIRST_LINE = b"embed: checkpoint of an unfinished run, format 3\n"

#: Why a row has no vector: `error`, and the endpoint's `code` if it refused the row.
Rejected = Mapping[str, str | None]


class Checkpoint:
    """An append-only file of vectors. As a context manager, it locks the file for this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: The job of the vectors, as JSON. A change is written with the next rows.
        self.job: dict[str, Any] | None = None
        #: The number of rows of the source in the file, with or without a vector.
        self.rows = 0
        #: The rows without a vector, by their position in the source.
        self.rejected: dict[int, Rejected] = {}
        self.vector_space: str | None = None
        self._written: dict[str, Any] | None = None  # the job in the file
        self._row: npt.NDArray[Any] | None = None  # an uninitialized vector, for its type and width
        self._blocks: list[tuple[int, int]] = []  # the offset and number of vectors of each record
        self._end = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            # Unbuffered, so that the write that fails raises the error, not a later close.
            self._file = self.path.open("a+b", buffering=0)
            _lock(self._file, self.path)
            with self.path.open("rb") as file:
                self._read_all(file)
            self._file.truncate(self._end)
        except OSError as error:
            self._close()
            raise FileError(f"{self.path} cannot be opened: {error.strerror or error}.") from error
        except FileError:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._row is None:  # no vectors to keep
            self.path.unlink(missing_ok=True)
        self._close()

    def append(
        self,
        vectors: npt.NDArray[Any],
        *,
        vector_space: str | None,
        rejected: Mapping[int, Rejected] | None = None,
    ) -> None:
        """Append rows; `rejected` are those without a vector, by their position among them."""
        rejected = rejected or {}
        record: dict[str, Any] = {"rows": len(vectors) + len(rejected), "rejected": rejected}
        if len(vectors):
            dtype = vectors.dtype if self._row is None else self._row.dtype
            vectors = np.ascontiguousarray(vectors, dtype)
            record |= {"width": vectors.shape[1], "dtype": dtype.name, "space": vector_space}
        head = b"" if self._end else _FIRST_LINE
        if self.job != self._written:
            head += _line({"job": self.job})
        head += _line(record)
        self._write(head + (vectors.tobytes() if len(vectors) else b""))
        self._written = self.job
        self._index(record, at=self._end + len(head))

    def read(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the vectors of each record, as an array of shape (some, width)."""
        if self._row is None:
            return
        with self.path.open("rb") as file:
            for start, count in self._blocks:
                file.seek(start)
                raw = file.read(count * self._row.nbytes)
                yield np.frombuffer(raw, self._row.dtype).reshape(count, -1)

    @property
    def width(self) -> int:
        """The number of components of a vector, or 0 if there are none."""
        return 0 if self._row is None else len(self._row)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the components, or float32 if there are none."""
        return np.dtype(np.float32) if self._row is None else self._row.dtype

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise FileError(f"{self.path} is not open.")
        unwritten = memoryview(data)
        try:
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]
        except OSError as error:
            # Remove the incomplete record. If this fails, the next run removes it.
            with suppress(OSError):
                self._file.truncate(self._end)
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}.") from error

    def _index(self, record: Mapping[str, Any], *, at: int) -> None:
        """Add a record to the index. Its vectors begin at an offset of the file."""
        count = record["rows"] - len(record["rejected"])
        self.rejected |= {self.rows + int(key): why for key, why in record["rejected"].items()}
        self.rows += record["rows"]
        self._end = at
        if count:
            if self._row is None:
                self._row = np.empty((record["width"],), np.dtype(record["dtype"]))
            self.vector_space = record["space"]
            self._blocks.append((at, count))
            self._end += count * self._row.nbytes

    def _read_all(self, file: IO[bytes]) -> None:
        size = os.fstat(file.fileno()).st_size
        line = file.read(len(_FIRST_LINE))
        if not _FIRST_LINE.startswith(line):
            raise FileError(
                f"{self.path} was not written by this version of embed. Move or delete it."
            )
        if line != _FIRST_LINE:
            return
        self._end = file.tell()
        while (line := file.readline()).endswith(b"\n"):
            try:
                record = json.loads(line)
                if "job" in record:
                    self.job = self._written = record["job"]
                    self._end = file.tell()
                    continue
                count = record["rows"] - len(record["rejected"])
                width = record["width"] * np.dtype(record["dtype"]).itemsize if count else 0
                if file.tell() + count * width > size:
                    return
                self._index(record, at=file.tell())
            except (ValueError, KeyError, TypeError, AttributeError):
                raise FileError(f"{self.path} is damaged. Delete it to start again.") from None
            file.seek(self._end)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl  # noqa: PLC0415  (missing on Windows, where the file is not locked)
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(f"{path} is in use by another run.") from None
