"""Rows of CSV and JSONL, each a section: its text is the field `text`, or all fields as lines."""

import csv
import io
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import orjson

from jobs.documents.decoding import decoded
from jobs.documents.document import MAX_BLOCKS, Block, Document, RefusedDocumentError
from jobs.documents.front_matter import scalar
from jobs.rows import (
    Fields,
    cells_problem,
    csv_cells,
    csv_fields,
    header_problem,
    json_fields,
    text_problem,
)

_TEXT = "text"


def read_json_lines(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
    """Read JSONL."""
    lines = enumerate(decoded(data, content_type).split("\n"), 1)
    rows = (
        (number, *json_fields(line, parse=orjson.loads)) for number, line in lines if line.strip()
    )
    return Document("", {}, _blocks(rows, wanted))


def read_csv(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
    """Read CSV."""

    def rows() -> Iterator[tuple[int, Fields, str | None]]:
        for number, cells in lines:
            if cells:
                fields, problem = csv_fields(header, cells)
                if len(cells) < len(header):
                    problem = cells_problem(header, cells)
                values = {name: scalar(fields[name]) for name in wanted if fields.get(name)}
                yield number, {**fields, **values}, problem

    lines = csv_cells(io.StringIO(decoded(data, content_type), newline=""))
    try:
        _, header = next(lines, (1, []))
        if problem := header_problem(header):
            raise RefusedDocumentError(f"it {problem}")
        return Document("", {}, _blocks(rows(), wanted))
    except csv.Error as error:
        raise RefusedDocumentError(f"it {error}") from None


def _blocks(rows: Iterable[tuple[int, Fields, str | None]], wanted: Collection[str]) -> list[Block]:
    blocks = []
    for number, fields, problem in islice(rows, MAX_BLOCKS + 1):
        if problem:
            raise RefusedDocumentError(f"line {number} {problem}")
        metadata = {name: fields[name] for name in wanted if fields.get(name) not in (None, "", [])}
        for name, value in metadata.items():
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str | int | float) for item in items):
                raise RefusedDocumentError(
                    f"line {number}: {name} must be text, a number, a boolean or a list of these"
                )
        text = fields.get(_TEXT)
        if text is None:
            text = "\n".join(f"{name}: {_shown(value)}" for name, value in fields.items() if value)
        if not isinstance(text, str):
            raise RefusedDocumentError(f"line {number} {text_problem(fields, _TEXT)}")
        if text.strip():
            blocks.append(Block(text, (), number, metadata))
    return blocks


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
