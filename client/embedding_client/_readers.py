"""Reads the rows of a file in any format, with their line numbers and errors."""

import csv
import gzip
import hashlib
import io
import os
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedding_client._arguments import FORMATS
from embedding_client.errors import FileError
from embedding_client.rows import (
    NOT_UTF8,
    Fields,
    column_problem,
    csv_cells,
    csv_fields,
    csv_header,
    header_problem,
    is_unicode,
    json_fields,
    object_fields,
    parse_json,
    text_problem,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
}
#: The line where a row begins, its fields, and the reason if it cannot be embedded.
_Read = tuple[int | None, Fields, str | None]


def problem_of(fields: Fields, column: str) -> str | None:
    """Return why the text of a row cannot be embedded, or None."""
    problem = text_problem(fields, column)
    advice = "" if column in fields else ". Select the field with --column"
    return problem and problem + advice


def _text(file: io.BufferedReader, column: str) -> Iterator[_Read]:
    """Read each line as a row. Blank lines at the end are ignored."""
    blank, not_utf8 = 0, _not_utf8(file)
    for number, line in enumerate(_lines(file, newline="\n"), 1):
        if not line.strip():
            blank += 1
            continue
        for before in range(number - blank, number):
            yield before, {column: ""}, "is blank"
        blank = 0
        fields = {column: _decoded(line.rstrip("\r\n"))}
        problem = problem_of(fields, column) if is_unicode(line) else not_utf8
        yield number, fields, problem


def _jsonl(file: io.BufferedReader, column: str) -> Iterator[_Read]:
    """Read an object or a string from each line. Blank lines are not rows."""
    not_utf8 = _not_utf8(file)
    for number, line in enumerate(_lines(file, newline="\n"), 1):
        if line.strip():
            fields, problem = json_fields(line, string_name=column)
            if problem == NOT_UTF8:
                problem = not_utf8
            yield number, fields, problem or problem_of(fields, column)


def _json(file: io.BufferedReader, column: str) -> Iterator[_Read]:
    """Read an array of objects or strings."""
    try:
        values = parse_json("".join(_lines(file, newline="")))
    except (ValueError, RecursionError) as error:
        raise FileError(
            f"is not one JSON value: {error}. If each line holds an object, use --format jsonl."
        ) from error
    if not isinstance(values, list):
        raise FileError(
            "must hold a JSON array of objects or strings; found "
            f"{'an object' if isinstance(values, dict) else type(values).__name__}."
        )
    for value in values:
        fields, problem = object_fields(value, string_name=column)
        yield None, fields, problem or problem_of(fields, column)


def _csv(file: io.BufferedReader, column: str, *, separator: str | None = None) -> Iterator[_Read]:
    not_utf8 = _not_utf8(file)
    rows = csv_cells(_lines(file, newline=""), separator)
    try:
        _, header = csv_header(rows)
        if not all(map(is_unicode, header)):
            raise FileError(not_utf8)
        _check_header(header, column)
        blank: list[int] = []
        for line, cells in rows:
            if not cells:
                # With one column, a blank line is an empty cell. With several, it is not a row.
                blank += [line] if len(header) == 1 else []
                continue
            for blank_line in blank:
                yield blank_line, {column: ""}, problem_of({column: ""}, column)
            blank = []
            fields, problem = csv_fields(header, list(map(_decoded, cells)))
            if problem is None and not is_unicode("".join(cells)):
                problem = not_utf8
            yield line, fields, problem or problem_of(fields, column)
    except csv.Error as error:
        raise FileError(f"{error}.") from error


def _parquet(file: io.BufferedReader, column: str) -> Iterator[_Read]:
    try:
        import pyarrow as arrow  # noqa: PLC0415  (an extra)
        import pyarrow.parquet  # noqa: PLC0415  (an extra)
    except ImportError:
        raise FileError(
            "cannot be read without pyarrow: pip install 'embedding-client[parquet]'."
        ) from None
    try:
        opened = arrow.parquet.ParquetFile(file)
        _check_header(opened.schema_arrow.names, column)
        for batch in opened.iter_batches(batch_size=1024):
            for fields in batch.to_pylist():
                yield None, fields, problem_of(fields, column)
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise FileError(f"is not valid Parquet: {error}") from error


#: The reader of each format. It yields (line, fields, problem) for a binary file and a column.
READERS: dict[str, Callable[[io.BufferedReader, str], Iterator[_Read]]] = {
    "text": _text,
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "tsv": partial(_csv, separator="\t"),
    "parquet": _parquet,
}


def _lines(file: io.BufferedReader, *, newline: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, with or without a byte order mark or gzip compression.

    A byte that is not valid UTF-8 becomes a lone surrogate.
    """
    start = file.peek(2)[:2]
    if start in _UTF16:
        raise FileError(
            "is UTF-16, not UTF-8. Convert it first: "
            + _converter(file)("iconv -f UTF-16 -t UTF-8")
        )
    raw: Any = gzip.GzipFile(fileobj=file) if start == _GZIP else file
    try:
        with io.TextIOWrapper(
            raw, encoding="utf-8-sig", errors="surrogateescape", newline=newline
        ) as text:
            yield from text
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise FileError(f"is damaged: {error}.") from error


def _check_header(names: list[str], column: str) -> None:
    if problem := header_problem(names):
        raise FileError(f"{problem}.")
    if problem := column_problem(names, column):
        raise FileError(f"{problem}. Select the column with --column.")


def _not_utf8(file: io.BufferedReader) -> str:
    """Return the problem of bytes that are not UTF-8. Call it before the file is read."""
    return (
        f"{NOT_UTF8}. Convert the file first; from Windows-1252, which Excel writes: "
        + _converter(file)("iconv -f CP1252 -t UTF-8")
    )


def _converter(file: io.BufferedReader) -> Callable[[str], str]:
    """Return what makes a shell's command of a program that converts a file.

    A file without a name is FILE. Call it before the file is read.
    """
    path = "FILE" if isinstance(file.name, int) else shlex.quote(str(file.name))
    if file.peek(2)[:2] == _GZIP:
        return lambda program: f"gzip -dc < {path} | {program} > NEW"
    return lambda program: f"{program} < {path} > NEW"


def _decoded(text: str) -> str:
    """Replace bytes that were not UTF-8 with U+FFFD."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a file."""

    #: Number of the row and of its line, from 1; None in a format without lines.
    number: int
    line: int | None
    #: Empty if the row could not be read.
    fields: Fields
    #: The text to embed, or None with the problem.
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


class TextSource:
    """A file with texts, or standard input.

    A row that cannot be embedded is yielded too, with the reason as its `problem`.

    Args:
        path: The file, or None for standard input.
        kind: One of `formats`; by default the format of the file's name, or `text`.
        column: The name of the field with the text.
        name: The name in messages; by default the path.

    Raises:
        FileError: If the path is no file, or its format is unknown.
    """

    #: The formats that can be read.
    formats = FORMATS

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
        self._is_copy = name is not None
        if path is not None and not path.is_file():
            raise FileError(
                f"{path} is not a file." if path.exists() else f"{path} does not exist."
            )
        self.kind = kind or (_format_of(path) if path is not None else "text")
        self.column = column
        self._state: tuple[int, ...] | None = None
        self._digest = ""

    def identity(self) -> dict[str, Any]:
        """Return the digest of the content and how to read it, without the name and the time."""
        return {"sha256": self._digest, "format": self.kind, "column": self.column}

    def check_unchanged(self) -> None:
        """Check that the content has not changed since `rows` identified it."""
        with self._opened() as file:
            if (state := _state(file)) == self._state:
                return
            if hashlib.file_digest(file, "sha256").hexdigest() != self._digest:
                raise self.changed()
            self._state = state

    def changed(self) -> FileError:
        """Return the error for a file that changed during a run."""
        return FileError(
            f"{self.name} was changed while it was being embedded, so the vectors do not match its "
            "rows. Run the command again."
        )

    def rows(self, *, identify: bool = False) -> Iterator[Row]:
        """Yield the rows. With `identify`, compute what `identity` returns, once all are read."""
        with self._opened() as file:
            try:
                opened = _Hashed(file) if identify else None
                # Parquet's reader jumps in the file.
                jumps = self.kind == "parquet"
                if opened is not None and jumps:
                    opened.readall()
                    file.seek(0)
                read = READERS[self.kind](
                    io.BufferedReader(opened) if opened and not jumps else file, self.column
                )
                for number, (line, fields, problem) in enumerate(read, 1):
                    text = None if problem else fields[self.column]
                    yield Row(number=number, line=line, fields=fields, text=text, problem=problem)
                if opened is not None:
                    self._state, self._digest = opened.state, opened.digest.hexdigest()
            except FileError as error:
                raise FileError(f"{self.name} {error}") from error.__cause__
            except (OSError, EOFError) as error:
                reason = getattr(error, "strerror", None) or error
                raise FileError(f"{self.name} cannot be read: {reason}.") from error

    def texts(self) -> list[str]:
        """Return the texts of all rows. The first row without one is an error."""
        rows = list(self.rows())
        if bad := next((row for row in rows if row.problem), None):
            raise FileError(f"{self.name}, {bad.place}: {bad.problem}")
        return [str(row.text) for row in rows]

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
            if self._is_copy:  # not opened by its name, which no error may show
                return os.fdopen(os.open(self.path, os.O_RDONLY), "rb")
            return self.path.open("rb")
        except OSError as error:
            raise FileError(f"{self.name} cannot be read: {error.strerror or error}.") from error


def _format_of(path: Path) -> str:
    """Return the format of a file by its name, ignoring `.gz` at the end."""
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    kind = _SUFFIXES.get(name.suffix.lower())
    if kind is None or (kind == "parquet" and name != path):
        raise FileError(
            f"{path}: the format of {path.suffix or 'a file without an extension'} is unknown. "
            f"Known extensions are {', '.join(_SUFFIXES)}, and all except .parquet with .gz; or "
            f"set the format with --format {'|'.join(FORMATS)}."
        )
    return kind


class _Hashed(io.RawIOBase):
    """A file that is hashed as it is read."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self.name = file.name
        self.state = _state(file)
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        count = self._file.readinto(buffer)
        self.digest.update(memoryview(buffer)[:count])
        return count


def _state(file: io.BufferedReader) -> tuple[int, ...]:
    state = os.fstat(file.fileno())
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
