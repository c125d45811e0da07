"""Reads the rows of a file, in the same order each time."""

import hashlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedding_client.errors import FileError
from embedding_client.formats import format_of
from embedding_client.readers import READERS, Record

__all__ = ["Row", "Source"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a file.

    Attributes:
        number: The number of the row, from 1.
        line: The line where it begins, from 1, or None in a format without lines.
        fields: The fields of the row. Empty if the row could not be read.
        text: The text to embed, or None if the row has no valid text.
        problem: Why the row has no valid text, or None.
    """

    number: int
    line: int | None
    fields: Record
    text: str | None
    problem: str | None

    @property
    def place(self) -> str:
        """The position of the row, for messages."""
        if self.line is None:
            return f"row {self.number}"
        if self.line == self.number:
            return f"line {self.line}"
        return f"row {self.number} (line {self.line})"


class Source:
    """A file with texts, or standard input.

    A row that cannot be embedded is yielded too. Its `problem` gives the reason, and the caller
    decides how to handle it.

    Args:
        path: The file, or None for standard input, which can be read only once.
        kind: One of `FORMATS`. By default, the file name sets it, and standard input is text.
        column: The field that holds the text.
        name: The name of the file in messages. The default is its path.
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
        """Return the digest of the content and how to read it, without the name and the time."""
        with self._opened() as file:
            self._state = _state(file)
            self._digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": self._digest, "format": self.kind, "column": self.column}

    def check_unchanged(self) -> None:
        """Check that the content has not changed since `identity` was called.

        Raises:
            FileError: If it has changed.
        """
        with self._opened() as file:
            if _state(file) == self._state:
                return
            if hashlib.file_digest(file, "sha256").hexdigest() == self._digest:
                return
        raise self.changed()

    def changed(self) -> FileError:
        """Return the error for a file that changed during a run."""
        return FileError(
            f"{self.name} was changed while it was being embedded, so the vectors do not match its "
            "rows. Run the command again."
        )

    def rows(self, *, start: int = 0) -> Iterator[Row]:
        """Yield the rows after the first `start`.

        Raises:
            FileError: If the file cannot be read, or is not valid in its format.
        """
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
                reason = getattr(error, "strerror", None) or error
                raise FileError(f"{self.name} cannot be read: {reason}.") from error

    def is_same_file(self, path: Path) -> bool:
        """Return whether a path leads to this file, also through a link."""
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
