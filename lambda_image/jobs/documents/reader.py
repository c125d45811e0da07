"""An object to a document, by the suffix of its key."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from jobs.documents.bounded import bounded
from jobs.documents.decoding import decoded
from jobs.documents.document import Document, Outline, RefusedDocumentError, check_blocks
from jobs.documents.front_matter import front_matter, scalar, split_front_matter
from jobs.documents.html import read_html
from jobs.documents.markdown import read_markdown
from jobs.documents.tables import read_csv, read_json_lines, read_tsv
from jobs.documents.text import read_text

_MAX_NAME = 256


def read_document(
    key: str, data: bytes, attributes: Mapping[str, str], *, wanted: Collection[str]
) -> Document:
    """Read an object in the format of its key's suffix; `RefusedDocumentError` if that fails.

    Of its metadata, only keys that are `wanted` are kept. Front matter counts before user metadata,
    and a row before both.
    """
    read = _READERS.get(Path(key).suffix.lower())
    if read is None:
        raise RefusedDocumentError(
            f"the key must end with {', '.join(_READERS)}; found {Path(key).suffix or 'no suffix'}"
        )
    # S3 keeps the names in lower case.
    own = {name: scalar(attributes[name.lower()]) for name in wanted if name.lower() in attributes}
    document = read(data, attributes.get("Content-Type", ""), wanted)
    check_blocks(document.blocks)
    title = str(document.metadata.get("title") or document.title or Path(key).name)
    of_document = {name: value for name, value in document.metadata.items() if name in wanted}
    return document._replace(title=title[:_MAX_NAME], metadata=own | of_document)


def _read_prose(data: bytes, content_type: str, read: Callable[[str, Outline], None]) -> Document:
    outline = Outline()
    read(_text(data, content_type), outline)
    outline.end_section()
    return Document(outline.title, {}, outline.blocks)


def _read_text(data: bytes, content_type: str, _wanted: Collection[str]) -> Document:
    return _read_prose(data, content_type, read_text)


def _read_html(data: bytes, content_type: str, _wanted: Collection[str]) -> Document:
    return _read_prose(data, content_type, read_html)


def _read_markdown(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
    text = _text(data, content_type)
    outline = Outline()
    read_markdown(split_front_matter(text)[1], outline)
    outline.end_section()
    return Document(outline.title, front_matter(text, wanted), outline.blocks)


def _text(data: bytes, content_type: str) -> str:
    return decoded(data, content_type).replace("\r\n", "\n").replace("\r", "\n")


#: Suffix → reader of an object's bytes, its content type, and the metadata keys of the index.
_READERS: dict[str, Callable[[bytes, str, Collection[str]], Document]] = {
    ".txt": _read_text,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".html": _read_html,
    ".htm": _read_html,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".tab": read_tsv,
    ".pdf": bounded("pdf"),
}
