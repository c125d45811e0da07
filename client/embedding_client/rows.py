"""Rows of JSON and CSV: their fields, and the reason why a row or its text is refused.

`embed --file`, batch jobs and the ingestion of documents read rows by this module, so that each
refuses a row with the same words. A reason continues after the row's position or the file's name,
and quotes no text. `lambda_image/jobs/rows.py` is a link to this file, so it imports the standard
library alone.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _csv import Reader

#: The fields of a row.
Fields = Mapping[str, Any]

NOT_UTF8 = "is not UTF-8"
#: Characters of a field of CSV. Python's own limit is 131,072.
_LONGEST_CELL = 1 << 27
#: Lines that show what separates the cells.
_FIRST_LINES = 50
_SEPARATOR_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?', re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\.?\d[\d.,]*(e[+-]?\d+)?", re.IGNORECASE)
#: Names of fields that a reason lists.
_LISTED = 20


def text_problem(fields: Fields, name: str) -> str | None:
    """Return why a field is no text to embed, or None."""
    if name not in fields:
        names = ", ".join(map(repr, list(fields)[:_LISTED])) or "no fields"
        return f"has no {name!r}; it has {names}"
    text = fields[name]
    if isinstance(text, str) and text.strip():
        return unicode_problem(text, name)
    value = "null" if text is None else type(text).__name__
    if isinstance(text, str):  # of white space alone
        value = repr(text)
    return f"has no text in {name!r}: {value:.60}"


def unicode_problem(text: str, name: str) -> str | None:
    """Return why a field's text is not Unicode, or None.

    A byte that is not UTF-8 is a lone surrogate by the error handler `surrogateescape`.
    """
    if is_unicode(text):
        return None
    try:
        text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return f"has a lone surrogate, which is not valid Unicode, in {name!r}"
    return f"{NOT_UTF8} in {name!r}"


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_json(text: str) -> Any:
    """Parse JSON in which no object has a key twice: the last one would win without a word."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        repeated = next(iter(_repeated(name for name, _ in pairs)))
        raise ValueError(f"the key {repeated!r} is twice in an object, and is allowed once")
    return fields


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def json_fields(
    line: str | bytes, *, parse: Callable[[str], Any] = parse_json, string_name: str | None = None
) -> tuple[Fields, str | None]:
    """Return the fields of an object in JSON, and why it has none.

    With a `string_name`, a string is an object with a field of this name. A line that `parse`
    refuses is refused in the standard library's words, if that refuses it, too.
    """
    text = line.decode(errors="surrogateescape") if isinstance(line, bytes) else line
    text = text.rstrip("\r\n")
    if not is_unicode(text):
        return {}, NOT_UTF8
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        return {}, _not_json(text, error)
    return object_fields(value, string_name=string_name)


def _not_json(text: str, error: Exception) -> str:
    try:
        parse_json(text)
    except (ValueError, RecursionError) as own:
        error = own
    return f"is not JSON: {error}"


def object_fields(value: Any, *, string_name: str | None = None) -> tuple[Fields, str | None]:
    """Return the fields of a parsed value, as `json_fields` does."""
    if isinstance(value, dict):
        return value, None
    if string_name is None:
        return {}, f"is not an object; found {type(value).__name__}"
    if isinstance(value, str):
        return {string_name: value}, None
    return {}, f"is neither an object nor a string; found {type(value).__name__}"


def csv_separator(lines: Iterable[str]) -> str:
    """Return what separates the cells of CSV, by its first lines: `,`, `;`, a tab or `|`.

    Excel's first line `sep=;` names it. Else it divides the header, and most of the next rows into
    as many cells; of several, it is the one with the most cells.

    Raises:
        csv.Error: Several ones do, or none and blanks separate numbers.
    """
    first = list(islice(lines, _FIRST_LINES)) or [""]
    first[0] = first[0].removeprefix("\ufeff")
    if named := _SEPARATOR_LINE.fullmatch(first[0].rstrip("\r\n")):
        return named[1]
    widths: dict[str, int] = {}
    fitting: dict[str, int] = {}
    for separator in ",;\t|":
        header, *rows = _first_rows(first, separator) or [[]]
        if len(header) > 1:
            widths[separator] = len(header)
            # R's `write.table` has no name for the column of the rows' own names.
            if 2 * sum(len(cells) - len(header) in {0, 1} for cells in rows) >= len(rows):
                fitting[separator] = len(header)
    if not widths and _has_blanks(first):
        raise csv.Error("is separated by blanks; allowed are , ; tab and |")
    if not fitting and (not widths or "," in widths):
        return ","
    widest = [name for name, width in fitting.items() if width == max(fitting.values())]
    if len(widest) == 1:
        return widest[0]
    raise csv.Error(
        f"may be separated by {' or '.join(map(repr, widest or widths))}; a first line sep=, or "
        "sep=; decides"
    )


def _first_rows(lines: Iterable[str], separator: str) -> list[list[str]]:
    """Return the rows that are not blank. One that is broken has one cell."""
    reader = csv_reader(lines, separator)
    rows: list[list[str]] = []
    while True:
        try:
            rows.append(next(reader))
        except csv.Error:
            rows.append([""])
        except StopIteration:
            return list(filter(None, rows))


def _has_blanks(lines: Iterable[str]) -> bool:
    """Return whether each row has as many numbers between blanks as the header has words."""
    header, *rows = [words for line in lines if (words := line.split())] or [[]]
    return len(header) > 1 and {len(header)} == {
        len(words) if all(map(_NUMBER.fullmatch, words)) else 0 for words in rows
    }


def csv_reader(lines: Iterable[str], separator: str, *, skip_blanks: bool = False) -> "Reader":
    """Return a strict reader. After an error it continues with the next line."""
    # For the whole process: other code may have set a higher limit.
    csv.field_size_limit(max(_LONGEST_CELL, csv.field_size_limit()))
    return csv.reader(lines, delimiter=separator, skipinitialspace=skip_blanks, strict=True)


def csv_cells(
    lines: Iterable[str], separator: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's first line, from 1, and its cells; a blank line has none.

    By default, the first lines show the separator.

    Raises:
        csv.Error: The lines are not CSV.
    """
    if separator is None:
        lines = iter(lines)
        first = list(islice(lines, _FIRST_LINES))
        separator, lines = csv_separator(first), chain(first, lines)
    reader = csv_reader(lines, separator)
    try:
        end = 0
        for cells in reader:
            yield end + 1, cells
            end = reader.line_num
    except csv.Error as error:
        raise csv.Error(f"is not CSV: line {reader.line_num}: {error}") from error


def csv_header(rows: Iterable[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """Return the first row that is neither blank nor Excel's `sep=;`, as it is yielded."""
    for number, cells in rows:
        if cells and not _SEPARATOR_LINE.fullmatch(";".join(cells)):
            return number, cells
    return 0, []


def csv_fields(header: Sequence[str], cells: Sequence[str]) -> tuple[Fields, str | None]:
    """Return the cells by the names of the header, None for those that are missing.

    Empty cells beyond the header are none: some programs end each row with a separator.
    """
    fields = dict(zip_longest(header, cells[: len(header)]))
    return fields, cells_problem(header, cells) if any(cells[len(header) :]) else None


def cells_problem(header: Sequence[str], cells: Sequence[str]) -> str:
    """Return why a row has too many or too few cells."""
    return f"has {len(cells)} cell{'s' * (len(cells) != 1)}; the header has {len(header)}"


def header_problem(names: Sequence[str]) -> str | None:
    """Return why a header is refused, or None. Several columns may have no name."""
    repeated = sorted(filter(None, _repeated(names)))
    if not repeated:
        return None
    listed = ", ".join(map(repr, repeated[:_LISTED]))
    return f"has more than one column named {listed}. Column names must be unique"


def column_problem(names: Sequence[str], name: str) -> str | None:
    """Return why a file has not the column, or None."""
    if name in names:
        return None
    return f"has no column {name!r}; it has {', '.join(map(repr, names)) or 'no columns'}"
