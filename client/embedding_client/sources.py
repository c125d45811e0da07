"""A file of texts as rows, in the same order each time it is read."""

import hashlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedding_client.errors import FileError
from embedding_client.formats import format_of

__all__ = ["Record", "Row", "Source"]

#: The fields of one row, the text among them.
Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a file.

    Attributes:
        number: of the row, from 1.
        line: where it begins in the file, from 1; None in a format that has no lines.
        fields: all that the row holds; nothing where it could not be read.
        text: to embed; None where the row has none that can be embedded.
        problem: why it has none.
    """

    number: int
    line: int | None
    fields: Record
    text: str | None
    problem: str | None

    @property
    def place(self) -> str:
        """Where the row is, for a message."""
        if self.line is None:
            return f"row {self.number}"
        return f"line {self.line}" if self.line == self.number else self._both

    @property
    def _both(self) -> str:
        return f"row {self.number} (line {self.line})"


class Source:
    """A file of texts, or standard input.

    A row that cannot be embedded is still a row: its `problem` says why, and the caller decides.

    Args:
        path: the file; None for standard input, which can be read only once.
        kind: one of `FORMATS`; None takes the format from the file's name, and text for standard
            input.
        column: the field that holds the text.
        name: what messages call the file, if not its path.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        kind: str | None = None,
        column: str = "text",
        name: str | None = None,
    ) -> None:
        self.path = path
        self.name = name or (str(path) if path else "standard input")
        if path is not None and not path.is_file():
            raise FileError(
                f"{path} is not a file." if path.exists() else f"{path} does not exist."
            )
        self.kind = kind or (format_of(path) if path is not None else "text")
        self.column = column
        self._state: tuple[int, ...] | None = None
        self._digest = ""

    def identity(self) -> dict[str, Any]:
        """Returns what a run depends on: the content and how it is read, not name or time."""
        with self._opened() as file:
            self._state = _state(file)
            self._digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": self._digest, "format": self.kind, "column": self.column}

    def check_unchanged(self) -> None:
        """Checks that the file still has the content that `identity` saw.

        Raises:
            FileError: it has other content now.
        """
        with self._opened() as file:
            if _state(file) == self._state:
                return
            if hashlib.file_digest(file, "sha256").hexdigest() == self._digest:
                return
        raise self.changed()

    def changed(self) -> FileError:
        """Returns the error for a file that was changed during a run."""
        return FileError(
            f"{self.name} was changed while it was being embedded, so its rows and the vectors do "
            "not belong together. Run the command again."
        )

    def rows(self, *, start: int = 0) -> Iterator[Row]:
        """Yields the rows, without the first `start`.

        Raises:
            FileError: the file cannot be read, or is not of its format.
        """
        from embedding_client.readers import READERS  # noqa: PLC0415  (it imports from here)

        with self._opened() as file:
            try:
                read = READERS[self.kind](file, self.column)
                for number, (line, fields, problem) in enumerate(read, 1):
                    if number > start:
                        text = None if problem else fields[self.column]
                        yield Row(
                            number=number, line=line, fields=fields, text=text, problem=problem
                        )
            except FileError as error:
                raise FileError(f"{self.name} {error}") from error.__cause__
            except (OSError, EOFError) as error:
                said = getattr(error, "strerror", None) or error
                raise FileError(f"{self.name} cannot be read: {said}.") from error

    def is_same_file(self, path: Path) -> bool:
        """Returns whether a path leads to this very file, under whatever name."""
        try:
            with self._opened() as file:
                return os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (OSError, io.UnsupportedOperation):
            return False

    def _opened(self) -> io.BufferedReader:
        if self.path is None:
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        try:
            return self.path.open("rb")
        except OSError as error:
            raise FileError(f"{self.name} cannot be read: {error.strerror or error}.") from error


def _state(file: io.BufferedReader) -> tuple[int, ...]:
    state = os.fstat(file.fileno())
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
