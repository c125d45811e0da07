"""Stores the vectors of an unfinished run, so that it can be resumed.

The file begins with a line that identifies the format. The records after it are lines of JSON:

    {"job": …}                                           the job that the vectors belong to
    {"rows": 64, "rejected": {"7": {…}}, "width": …}     followed by the vectors of 63 rows

A record that is incomplete is dropped when the file is opened, and its rows are embedded again.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from embedding_client._errors import FileError

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
            kind = vectors.dtype if self._row is None else self._row.dtype
            vectors = np.ascontiguousarray(vectors, kind)
            record |= {"width": vectors.shape[1], "dtype": kind.name, "space": vector_space}
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
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
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
        first = file.read(len(_FIRST_LINE))
        if not _FIRST_LINE.startswith(first):
            raise FileError(
                f"{self.path} was not written by this version of embed. Move or delete it."
            )
        if first != _FIRST_LINE:
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
