"""JSON: a list of objects as rows, other values as a line for each path."""

from collections.abc import Collection, Iterator
from typing import Any

import orjson

from jobs.documents.bounded.parts import in_order
from jobs.documents.decoding import decoded
from jobs.documents.document import Block, Document, RefusedDocumentError
from jobs.documents.tables import Row, read_rows


def read(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
    """Read a list of objects as JSONL. An object's keys with objects or lists begin sections."""
    try:
        value = orjson.loads(decoded(data, content_type))
    except orjson.JSONDecodeError as error:
        raise RefusedDocumentError(f"it is not JSON: {error}") from None
    problems: list[str] = []

    def part(headings: tuple[str, ...], value: Any) -> list[Block]:
        if _is_table(value):
            rows = (Row(number, row.items(), None) for number, row in enumerate(value, 1))
            document = read_rows(rows, wanted)
            problems.extend(problem.replace("line", "row", 1) for problem in document.problems)
            return [block._replace(headings=headings) for block in document.blocks]
        return [Block(text, headings) for text in ["\n".join(_lines("", value))] if text]

    if not isinstance(value, dict):
        parts = [part((), value)]
    else:
        inner = {key: item for key, item in value.items() if isinstance(item, dict | list) and item}
        parts = [part((), {key: item for key, item in value.items() if key not in inner})]
        parts += [part((key,), item) for key, item in inner.items()]
    title = value.get("title", "") if isinstance(value, dict) else ""
    return Document(
        title if isinstance(title, str) else "",
        {},
        list(in_order((blocks, {}) for blocks in parts)),
        tuple(problems),
    )


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _lines(path: str, value: Any) -> Iterator[str]:
    """Yield `path: value` for each value but null and empty ones; a list of texts has no paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _lines(f"{path}.{key}" if path else key, item)
    elif isinstance(value, list):
        for item in value:
            yield from _lines(path, item)
    elif value not in (None, ""):
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        yield f"{path}: {text}" if path else text
