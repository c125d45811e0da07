"""Plain text to blocks."""

import re

from jobs.documents.document import Outline

#: Blank lines. The indentation of the next one belongs to the paragraph.
_PARAGRAPH = re.compile(r"\n(?:[^\S\n]*\n)+")


def read_text(text: str, outline: Outline) -> None:
    """Add the paragraphs of plain text to an outline."""
    for paragraph in _PARAGRAPH.split(text):
        outline.add(paragraph)
