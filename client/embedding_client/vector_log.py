"""Vectors on disk while a file is embedded, so that a run that ended can continue.

The file begins with a line that names the format. After it come records, each a line of JSON:

    {"job": …}                                       what the vectors are of
    {"rows": 64, "rejected": {"7": {…}}, "width": …}     followed by the vectors of 63 rows

A record that was not written whole is forgotten, with the rows in it.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from embedding_client.errors import FileError

__all__ = ["Rejected", "VectorLog"]

_FIRST_LINE = b"embed: vectors of a run that has not ended, format 2\n"

#: Why a row has no vector: `error`, and the endpoint's `code` where it refused the row.
Rejected = Mapping[str, str | None]


class VectorLog:
    """An append-only file of vectors; a context manager that locks it for this process.

    Attributes:
        job: what the vectors are of, as JSON; None in a new log. A change is written with the next
            rows.
        rows: how many rows of the source are in it, with or without a vector.
        rejected: the rows without a vector, by their number from 0.
        vector_space: of the vectors; None before any.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job: dict[str, Any] | None = None
        self.rows = 0
        self.rejected: dict[int, Rejected] = {}
        self.vector_space: str | None = None
        self._written: dict[str, Any] | None = None  # the job that the file names
        self._row: npt.NDArray[Any] | None = None  # one row, empty: its type and width
        self._blocks: list[tuple[int, int]] = []  # where vectors begin, and how many
        self._end = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            # Unbuffered: an error is raised by the write that meets it, not by a later close.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._row is None:  # nothing in it that took work
            self.path.unlink(missing_ok=True)
        self._close()

    def append(
        self,
        vectors: npt.NDArray[Any],
        *,
        vector_space: str | None,
        rejected: Mapping[int, Rejected] | None = None,
    ) -> None:
        """Adds the next rows of the source.

        Args:
            vectors: of the rows that have one, in order: (some, width).
            vector_space: of the vectors.
            rejected: the rows that have none, by their position among these rows.

        Raises:
            FileError: they cannot be written; the log is as it was.
        """
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
        self._note(record, at=self._end + len(head))

    def read(self) -> Iterator[npt.NDArray[Any]]:
        """Yields the vectors as they were appended, in arrays (some, width)."""
        if self._row is None:
            return
        with self.path.open("rb") as file:
            for start, count in self._blocks:
                file.seek(start)
                raw = file.read(count * self._row.nbytes)
                yield np.frombuffer(raw, self._row.dtype).reshape(count, -1)

    @property
    def width(self) -> int:
        """Numbers in a vector; 0 before any."""
        return 0 if self._row is None else len(self._row)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers; float32 before any."""
        return np.dtype(np.float32) if self._row is None else self._row.dtype

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise FileError(f"{self.path} is not open.")
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            # What was written of it is cut off here, or else when the log is opened again.
            with suppress(OSError):
                self._file.truncate(self._end)
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}.") from error

    def _note(self, record: Mapping[str, Any], *, at: int) -> None:
        """Takes a record into account whose vectors begin at a place of the file."""
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
                f"{self.path} was not written by this version of embed. Move it away, or delete it."
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
                self._note(record, at=file.tell())
            except (ValueError, KeyError, TypeError, AttributeError):
                raise FileError(f"{self.path} is damaged. Delete it to begin again.") from None
            file.seek(self._end)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl  # noqa: PLC0415  (not on Windows, where two runs are not told apart)
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(f"{path} is in use: another run is writing it.") from None
