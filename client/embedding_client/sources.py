"""Texts out of a file: one a line, or a column of JSONL, CSV or Parquet."""

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from embedding_client.errors import FileError

__all__ = ["FORMATS", "Record", "Source"]

FORMATS = ("text", "jsonl", "csv", "parquet")
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}

#: The fields of one row, the text among them.
Record = Mapping[str, Any]


class Source:
    """A file of texts, read as a stream, in the same order each time.

    Blank lines of a text file are no rows; a blank text in a column is an error that names the row.

    Args:
        path: the file.
        kind: one of `FORMATS`, or None to tell it by the file's name (`.jsonl`, `.csv`, `.tsv`,
            `.parquet`; anything else is text).
        column: the column that holds the text; a text file has only one.
    """

    def __init__(self, path: Path, *, kind: str | None = None, column: str = "text") -> None:
        self.path = path
        self.kind = kind or _SUFFIXES.get(path.suffix.lower(), "text")
        self.column = column
        if not path.is_file():
            raise FileError(f"{path} is no file.")

    def identity(self) -> dict[str, Any]:
        """Tells this file in this state from others."""
        state = self.path.stat()
        return {
            "path": str(self.path.resolve()),
            "bytes": state.st_size,
            "modified": state.st_mtime_ns,
            "kind": self.kind,
            "column": self.column,
        }

    def count(self) -> int:
        """Returns the number of rows."""
        if self.kind == "parquet":
            return int(_parquet().ParquetFile(self.path).metadata.num_rows)
        return sum(1 for _ in self._rows())

    def records(self) -> Iterator[Record]:
        """Yields the rows with all their fields.

        Raises:
            FileError: a row cannot be read, or lacks the text.
        """
        for number, row in enumerate(self._rows(), 1):
            self._check(row, number)
            yield row

    def texts(self, *, start: int = 0) -> Iterator[str]:
        """Yields the rows' texts, from row `start` on."""
        for number, row in enumerate(self._rows(), 1):
            if number > start:
                self._check(row, number)
                yield row[self.column]

    def _check(self, row: Record, number: int) -> None:
        text = row.get(self.column)
        if self.column not in row:
            raise FileError(
                f"{self.path}: row {number} has no {self.column!r}; it has "
                f"{', '.join(map(repr, row)) or 'nothing'}. Choose with --column."
            )
        if not isinstance(text, str) or not text.strip():
            raise FileError(
                f"{self.path}: row {number} has no text in {self.column!r}: {text!r:.60}."
            )

    def _rows(self) -> Iterator[Record]:
        try:
            if self.kind == "parquet":
                for batch in _parquet().ParquetFile(self.path).iter_batches(batch_size=1024):
                    yield from batch.to_pylist()
                return
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                if self.kind == "csv":
                    yield from self._csv(file)
                elif self.kind == "jsonl":
                    yield from self._jsonl(file)
                else:
                    yield from ({self.column: line.rstrip("\r\n")} for line in file if line.strip())
        except UnicodeDecodeError as error:
            raise FileError(
                f"{self.path} is not UTF-8: {error.reason} at byte {error.start}."
            ) from error
        except OSError as error:
            raise FileError(f"{self.path} cannot be read: {error.strerror or error}.") from error

    def _csv(self, file: Any) -> Iterator[Record]:
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a text may be longer than 128 KB
        delimiter = "\t" if self.path.suffix.lower() == ".tsv" else ","
        try:
            for row in csv.DictReader(file, delimiter=delimiter):
                yield {name: value for name, value in row.items() if name is not None}
        except csv.Error as error:
            raise FileError(f"{self.path} is no CSV: {error}.") from error

    def _jsonl(self, file: Any) -> Iterator[Record]:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as error:
                raise FileError(f"{self.path}: line {number} is no JSON: {error}.") from error
            if isinstance(value, str):
                value = {self.column: value}
            if not isinstance(value, dict):
                raise FileError(f"{self.path}: line {number} is neither an object nor a string.")
            yield value


def _parquet() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415  (an extra)
    except ImportError:
        raise FileError("Parquet needs pyarrow: pip install 'embedding-kit[parquet]'.") from None
    return pyarrow.parquet
