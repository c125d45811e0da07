"""Text, HTML and Markdown: an object's bytes to a document."""

from collections.abc import Callable, Collection

from jobs.documents.decoding import decoded
from jobs.documents.document import Document, Outline
from jobs.documents.front_matter import split_front_matter
from jobs.documents.html import read_html
from jobs.documents.markdown import read_markdown
from jobs.documents.text import read_text


def read_text_document(data: bytes, content_type: str, _wanted: Collection[str]) -> Document:
    """Read text."""
    return _document(_lines(decoded(data, content_type)), read_text)


def read_html_document(data: bytes, content_type: str, _wanted: Collection[str]) -> Document:
    """Read HTML."""
    return _document(_lines(decoded(data, content_type, is_html=True)), read_html)


def read_markdown_document(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
    """Read Markdown, with its front matter."""
    metadata, text = split_front_matter(_lines(decoded(data, content_type)), wanted)
    return _document(text, read_markdown)._replace(metadata=metadata)


def _document(text: str, read: Callable[[str, Outline], None]) -> Document:
    outline = Outline()
    read(text, outline)
    outline.end_section()
    return Document(outline.title, {}, outline.blocks)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
