"""Rows of CSV and JSONL, each a section: its text is the field `text`, or all fields as lines.

A row that cannot be read is left out, and named among the problems of the document.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import orjson

from jobs.documents.decoding import decoded
from jobs.documents.document import MAX_BLOCKS, Block, Document, RefusedDocumentError
from jobs.documents.front_matter import scalar
from jobs.rows import (
    cells_problem,
    csv_fields,
    csv_header,
    csv_reader,
    csv_separator,
    header_problem,
    json_fields,
    text_problem,
)

_TEXT = "text"
#: A number as Excel writes it where semicolons separate the cells.
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
#: Reasons that a document's problems have, and lines that each lists.
_LISTED = 5
#: Rows that show whether they begin with a name of their own.
_FIRST_ROWS = 50
#: Times that the lines of a file may be read again after cells without an end, as a multiple.
_AGAIN = 3


class Row(NamedTuple):
    """A row of a table."""

    #: The line on which it begins, from 1.
    line: int
    #: Several fields may have no name.
    fields: Iterable[tuple[str, Any]]
    #: Why it is left out.
    problem: str | None
    #: Why it may not be as it was meant.
    doubt: str | None = None


def read_json_lines(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
    """Read JSONL."""

    def rows() -> Iterator[Row]:
        for number, line in enumerate(decoded(data, content_type).split("\n"), 1):
            if line.strip():
                fields, problem = json_fields(line, parse=_parse_json)
                yield Row(number, fields.items(), problem)

    return read_rows(rows(), wanted)


def _parse_json(line: str) -> Any:
    """Parse JSON; NaN, which Python and pandas write, becomes null."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            return orjson.loads(orjson.dumps(json.loads(line)))
        except TypeError:  # for a lone surrogate
            raise error from None


def read_csv(
    data: bytes, content_type: str, wanted: Collection[str], *, separator: str | None = None
) -> Document:
    """Read CSV, by default with the separator that its first lines show."""
    lines = list(io.StringIO(decoded(data, content_type), newline=""))
    try:
        separator = separator or csv_separator(lines)
    except csv.Error as error:
        raise RefusedDocumentError(f"it {error}") from None
    value_of = _decimal_comma if separator == ";" else scalar
    return read_rows(_csv_rows(lines, separator), wanted, value_of)


def read_tsv(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
    """Read CSV that tabs separate."""
    return read_csv(data, content_type, wanted, separator="\t")


def _csv_rows(lines: Sequence[str], separator: str) -> Iterator[Row]:
    rows = _csv_cells(lines, separator)
    _, header = csv_header(map(_unbroken, rows))
    header = [name.strip() for name in header]
    if problem := header_problem(header):
        raise RefusedDocumentError(f"it {problem}")
    first = list(islice(rows, _FIRST_ROWS))
    longer = [cells[-1] for _, cells, _ in first if len(cells) == len(header) + 1]
    if any(longer[1:]) and len(longer) == sum(bool(cells) for _, cells, _ in first):
        header.insert(0, "")  # R's `write.table` has no name for those of rows
    for line, cells, broken in chain(first, rows):
        problem = broken or csv_fields(header, cells)[1]
        doubt = None
        if cells and any(header[len(cells) :]):
            doubt = f"{cells_problem(header, cells)}: the last ones are read as empty"
        yield Row(line, zip(header, cells, strict=False), problem, doubt)


def _csv_cells(lines: Sequence[str], separator: str) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield the line of each row with its cells, or why it is broken.

    The line after the begin of a broken row begins a row again: a quote without an end is found at
    the end of the file, or at the next quote.
    """
    begin, again = 0, 0
    while begin < len(lines):
        remaining = map(lines.__getitem__, range(begin, len(lines)))
        reader = csv_reader(remaining, separator, skip_blanks=True)
        row = begin
        try:
            for cells in reader:
                yield row + 1, cells, None
                row = begin + reader.line_num
            begin = len(lines)
        except csv.Error as error:
            again += begin + reader.line_num - row - 1
            if again > _AGAIN * len(lines):
                raise RefusedDocumentError(f"line {row + 1} is not CSV: {error}") from None
            yield row + 1, [], f"is not CSV: {error}"
            begin = row + 1


def _unbroken(row: tuple[int, list[str], str | None]) -> tuple[int, list[str]]:
    line, cells, broken = row
    if broken:
        raise RefusedDocumentError(f"line {line} {broken}")
    return line, cells


def _decimal_comma(cell: str) -> Any:
    return scalar(cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell.strip()) else cell)


def read_rows(
    rows: Iterable[Row],
    wanted: Collection[str],
    value_of: Callable[[Any], Any] = lambda value: value,
) -> Document:
    """Read rows whose values are those of JSON; `value_of` makes one of a cell that has metadata.

    Raises:
        RefusedDocumentError: No row can be read.
    """
    blocks: list[Block] = []
    lines_by_reason: dict[str, list[int]] = {}
    for row in rows:
        fields = [(name, value) for name, value in row.fields if not _is_absent(value)]
        by_name = dict(fields)
        text = by_name.get(_TEXT, "\n".join(map(_shown, fields)))
        metadata = {name: value_of(by_name[name]) for name in wanted if name in by_name}
        problem = row.problem
        if not isinstance(text, str):
            problem = text_problem(by_name, _TEXT)
        problem = problem or _metadata_problem(metadata)
        if reason := problem or row.doubt:
            listed = reason in lines_by_reason or len(lines_by_reason) < _LISTED
            lines_by_reason.setdefault(reason if listed else "cannot be read", []).append(row.line)
        if text and not problem:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
            blocks.append(Block(text, (), row.line, metadata))
            if len(blocks) > MAX_BLOCKS:
                break
    problems = tuple(_sentence(*reason) for reason in lines_by_reason.items())
    if problems and not blocks:
        raise RefusedDocumentError(problems[0])
    return Document("", {}, blocks, problems)


def _is_absent(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else value in (None, [], {})


def _shown(field: tuple[str, Any]) -> str:
    name, value = field
    text = value.strip() if isinstance(value, str) else orjson.dumps(value).decode()
    return f"{name}: {text}" if name else text


def _metadata_problem(metadata: Mapping[str, Any]) -> str | None:
    for name, value in metadata.items():
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str | int | float) for item in items):
            return f"has no text, number, boolean or list of these in {name!r}"
    return None


def _sentence(reason: str, lines: Sequence[int]) -> str:
    """Return the first line with a reason, and some of the others."""
    _, *later = lines
    listed = ", ".join(map(str, later[:_LISTED]))
    rest = f" and {len(later) - _LISTED:,} more" if len(later) > _LISTED else ""
    return f"line {lines[0]} {reason}" + (f" (so do lines {listed}{rest})" if later else "")
