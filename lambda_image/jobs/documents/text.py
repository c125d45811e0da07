"""Plain text to blocks."""

import re

from jobs.documents.document import Outline

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")


def read_text(text: str, outline: Outline) -> None:
    """Add the paragraphs of plain text to an outline."""
    for paragraph in _PARAGRAPH.split(text):
        outline.add(paragraph)
