"""Vectors on disk while a file is embedded: rows of fixed width behind a line that says whose.

What stands in the log was embedded; what does not, was not. So a run that ended in any way, with
half a row written, goes on after the last whole row.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from embedding_client.errors import FileError

__all__ = ["VectorLog"]

_FORMAT = 1


class VectorLog:
    """An append-only file of vectors; a context manager that holds it for this process alone.

    Args:
        path: of the log; made when the first vectors are appended.
        job: what the vectors are of: the file, its state, the options. A log of another job is
            refused.
    """

    def __init__(self, path: Path, *, job: Mapping[str, Any]) -> None:
        self.path = path
        self._job = json.loads(json.dumps(job))
        self._file: IO[bytes] | None = None
        self._offset = 0
        self._row: npt.NDArray[Any] | None = None  # one row, empty: its type and width
        self.vector_space: str | None = None
        self.rows = 0

    def __enter__(self) -> Self:
        try:
            self._file = self.path.open("a+b")
            _lock(self._file, self.path)
            self._file.seek(0)
            header = self._file.readline()
            if header.endswith(b"\n"):
                self._read_header(header)
            else:  # new, or ended before its first line did
                self._file.truncate(0)
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
        self._close()
        if self._row is None:
            self.path.unlink(missing_ok=True)

    def append(self, vectors: npt.NDArray[Any], *, vector_space: str) -> None:
        """Adds rows, an array (some, width), and puts them on disk."""
        file = self._opened()
        try:
            if self._row is None:
                self._row = np.empty((vectors.shape[1],), vectors.dtype)
                self.vector_space = vector_space
                file.write(self._header())
                self._offset = file.tell()
            file.write(np.ascontiguousarray(vectors, self._row.dtype).tobytes())
            file.flush()
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}.") from error
        self.rows += len(vectors)

    def read(self, *, rows: int = 4096) -> Iterator[npt.NDArray[Any]]:
        """Yields all vectors, at most `rows` at a time, each an array (some, width)."""
        if self._row is None:
            return
        file = self._opened()
        file.flush()
        file.seek(self._offset)
        left = self.rows
        while left:
            take = min(rows, left)
            raw = file.read(take * self._row.nbytes)
            yield np.frombuffer(raw, self._row.dtype).reshape(take, -1)
            left -= take
        file.seek(0, os.SEEK_END)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and their width; (0, 0) before any."""
        return (self.rows, 0 if self._row is None else len(self._row))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers; float32 before any."""
        return np.dtype(np.float32) if self._row is None else self._row.dtype

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            raise FileError(f"{self.path} is not open.")
        return self._file

    def _header(self) -> bytes:
        width, kind = self.shape[1], self.dtype.name
        header = {"format": _FORMAT, "job": self._job, "vector_space": self.vector_space}
        return json.dumps({**header, "dtype": kind, "width": width}).encode() + b"\n"

    def _read_header(self, line: bytes) -> None:
        try:
            header = json.loads(line)
            known = header["format"] == _FORMAT
        except (ValueError, KeyError, TypeError):
            raise FileError(f"{self.path} is not a log of vectors; move it away.") from None
        if not known or header["job"] != self._job:
            raise FileError(
                f"{self.path} was begun for another file, state of the file, or options. Run the "
                "command that began it, or remove it to begin anew."
            )
        self.vector_space = header["vector_space"]
        self._row = np.empty((header["width"],), np.dtype(header["dtype"]))
        self._offset = len(line)
        file = self._opened()
        self.rows = (file.seek(0, os.SEEK_END) - self._offset) // self._row.nbytes
        file.truncate(self._offset + self.rows * self._row.nbytes)
        file.seek(0, os.SEEK_END)


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl  # noqa: PLC0415  (not on Windows, where two runs are not told apart)
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(f"{path} is in use: another run is writing it.") from None
