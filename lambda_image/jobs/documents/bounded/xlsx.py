"""XLSX: the rows of each sheet as those of CSV, under the sheet's name."""

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, time, timedelta
from io import BytesIO
from itertools import chain, islice
from typing import Any

import openpyxl

from jobs.documents.bounded.parts import in_order
from jobs.documents.bounded.zip_package import ZipPackage
from jobs.documents.document import MAX_BLOCKS, Block, Document, RefusedDocumentError
from jobs.documents.tables import Row, read_rows

#: A cell with a formula whose value a program that does not calculate left out.
_NO_VALUE = re.compile(rb"<f\b[^>]*(?:/>|>[^<]*</f>)\s*(?:<v\s*/>|<v>\s*</v>|</c>)")
#: The names that Excel gives to sheets, in its languages.
_DEFAULT_NAME = re.compile(r"[^\W\d]+ ?\d{1,2}")
#: Rows among which the header is looked for: titles and notes may be above it.
_FIRST_ROWS = 20

_Cells = Sequence[Any]


def read(data: bytes, _content_type: str, wanted: Collection[str]) -> Document:
    """Read the sheets that are not hidden, with the values that were calculated last."""
    package = ZipPackage(data)
    name, _ = package.main_part("XLSX")
    workbook = openpyxl.load_workbook(BytesIO(data), read_only=True, data_only=True)
    sheets: list[list[Block]] = []
    problems = []
    for sheet in workbook.worksheets:
        if sheet.sheet_state != "visible":
            problems.append(f"sheet {sheet.title!r} is hidden")
            continue
        # What a file says of its size may be wrong, or all that Excel can have.
        sheet.reset_dimensions()
        rows = (
            (number, [_plain(cell) for cell in cells])
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1)
        )
        filled = ((number, cells) for number, cells in rows if any(map(_is_filled, cells)))
        headings = () if _DEFAULT_NAME.fullmatch(sheet.title) else (sheet.title,)
        blocks, own_problems = _sheet(islice(filled, MAX_BLOCKS + 1), wanted)
        sheets.append([block._replace(headings=headings) for block in blocks])
        problems += [f"sheet {sheet.title!r}: {problem}" for problem in own_problems]
    for part in package.related(name, "worksheet").values():
        if _NO_VALUE.search(package.part(part) or b""):
            problems.append(
                "formulas without values are not read: open it in a spreadsheet program and save it"
            )
            break
    blocks = list(in_order((sheet, {}) for sheet in sheets))
    if problems and not blocks:
        raise RefusedDocumentError(problems[0])
    return Document(package.title(), {}, blocks, tuple(problems))


def _sheet(
    rows: Iterator[tuple[int, _Cells]], wanted: Collection[str]
) -> tuple[list[Block], tuple[str, ...]]:
    first = list(islice(rows, _FIRST_ROWS))
    widest = max((_width(cells) for _, cells in first), default=0)
    is_header = [
        _width(cells) >= max(2, widest / 2) and all(isinstance(cell, str | None) for cell in cells)
        for _, cells in first
    ]
    begin = is_header.index(True) if any(is_header) else len(first)
    lines = [
        (number, " | ".join(map(_shown, filter(_is_filled, cells)))) for number, cells in first
    ]
    above = [Block(line) for _, line in lines[:begin]]
    if begin == len(first):
        others = (
            (number, " | ".join(map(_shown, filter(_is_filled, cells)))) for number, cells in rows
        )
        return [*above, *(Block(line) for _, line in others)], ()
    header = [str(cell or "").strip() for cell in first[begin][1]]

    def named() -> Iterator[Row]:
        for number, cells in chain(first[begin + 1 :], rows):
            names = [*header, *[""] * (len(cells) - len(header))]
            yield Row(number, zip(names, cells, strict=False), None)

    document = read_rows(named(), wanted)
    if not document.blocks:
        return [*above, Block(lines[begin][1], (), 0)], document.problems
    return [*above, *document.blocks], document.problems


def _width(cells: _Cells) -> int:
    return sum(map(_is_filled, cells))


def _is_filled(cell: Any) -> bool:
    return cell is not None and cell != ""


def _shown(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _plain(cell: Any) -> Any:
    """Return a value that JSON has, without the error of a calculation in binary."""
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(" ")
    if isinstance(cell, float):
        rounded = float(f"{cell:.15g}")
        return int(rounded) if rounded.is_integer() else rounded
    if isinstance(cell, time | timedelta):
        return str(cell)
    if isinstance(cell, str):
        return None if cell.startswith("#") and cell.rstrip("!?").isupper() else cell.strip()
    return cell
