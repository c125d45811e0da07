"""Notebooks: cells of Markdown by its reader, and cells of code as code of their language.

Outputs are left out: to run a notebook again would change its chunks.
"""

import re
from collections.abc import Collection
from typing import Any

import orjson

from jobs.documents.decoding import decoded
from jobs.documents.document import Document, Outline, RefusedDocumentError
from jobs.documents.markdown import read_markdown
from jobs.documents.text import read_text

_BACKTICKS = re.compile("`{3,}")


def read(data: bytes, content_type: str, _wanted: Collection[str]) -> Document:
    """Read the cells."""
    try:
        notebook = orjson.loads(decoded(data, content_type))
    except orjson.JSONDecodeError as error:
        raise RefusedDocumentError(f"it is not JSON: {error}") from None
    if not isinstance(notebook, dict):
        raise RefusedDocumentError("it is no notebook: its JSON is not an object")
    metadata = notebook.get("metadata", {})
    language = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get(
        "language", "python"
    )
    outline = Outline()
    # Before version 4, cells were in worksheets.
    for sheet in notebook.get("worksheets", [notebook]):
        for cell in sheet.get("cells", []):
            _read_cell(cell, language, outline)
    outline.end_section()
    return Document(str(metadata.get("title") or outline.title), {}, outline.blocks)


def _read_cell(cell: dict[str, Any], language: str, outline: Outline) -> None:
    source = cell.get("source", cell.get("input", ""))
    text = ("".join(source) if isinstance(source, list) else str(source)).strip("\n")
    if cell.get("cell_type") == "code":
        if text.strip():
            fence = "`" * (1 + max(map(len, _BACKTICKS.findall(text)), default=2))
            read_markdown(f"{fence}{language}\n{text}\n{fence}", outline)
    elif cell.get("cell_type") == "heading":
        outline.begin(int(cell.get("level", 1)), text)
    elif cell.get("cell_type") == "markdown":
        read_markdown(text, outline)
    else:
        read_text(text, outline)
