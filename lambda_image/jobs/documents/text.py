"""Plain text to blocks."""

import re

from jobs.documents.document import Outline

#: The indentation after them belongs to the paragraph.
_BLANK_LINES = re.compile(r"\n\s*\n")


def read_text(text: str, outline: Outline) -> None:
    """Add the paragraphs of plain text to an outline."""
    start = 0
    for blank in _BLANK_LINES.finditer(text):
        outline.add(text[start : blank.start()])
        start = blank.end()
    outline.add(text[start:])
