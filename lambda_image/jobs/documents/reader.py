"""An object to a document, by the suffix of its key."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from jobs.documents.bounded import bounded
from jobs.documents.document import VISIBLE, Block, Document, RefusedDocumentError, check_blocks
from jobs.documents.front_matter import scalar
from jobs.documents.prose import read_html_document, read_markdown_document, read_text_document
from jobs.documents.tables import read_csv, read_json_lines, read_tsv

_MAX_NAME = 256
#: Formats that LibreOffice converts, and to which.
_CONVERTED = {
    **dict.fromkeys((".doc", ".odt", ".rtf"), "docx"),
    **dict.fromkeys((".xls", ".ods"), "xlsx"),
    **dict.fromkeys((".ppt", ".odp"), "pptx"),
}
#: The end of the keys of metadata of Bedrock Knowledge Bases, next to each document.
_BEDROCK = ".metadata.json"
#: Bytes of HTML or Markdown that are read in this process.
_MAX_UNBOUNDED = 32 * 1024


def read_document(
    key: str, data: bytes, attributes: Mapping[str, str], *, wanted: Collection[str]
) -> Document:
    """Read an object in the format of its key's suffix; `RefusedDocumentError` if that fails.

    Of its metadata, only keys that are `wanted` are kept. Front matter counts before user metadata,
    and a row before both.
    """
    read = _READERS.get(Path(key).suffix.lower())
    if read is None:
        suffix = Path(key).suffix.lower()
        if suffix in _CONVERTED:
            raise RefusedDocumentError(
                f"{suffix} is not read; `soffice --convert-to {_CONVERTED[suffix]}` converts it"
            )
        raise RefusedDocumentError(
            f"its name must end with {', '.join(_READERS)}; found {suffix or 'no suffix'}"
        )
    if key.endswith(_BEDROCK):
        raise RefusedDocumentError(
            f"{_BEDROCK} has metadata for Bedrock, which are not read: those of the object are"
        )
    if not data:
        raise RefusedDocumentError("it is empty")
    # S3 keeps the names in lower case.
    own = {name: scalar(attributes[name.lower()]) for name in wanted if name.lower() in attributes}
    document = read(data, attributes.get("Content-Type", ""), wanted)
    check_blocks(document.blocks)
    title = str(document.metadata.get("title") or document.title).translate(VISIBLE)
    title = " ".join(title.split())[:_MAX_NAME]
    of_document = {name: value for name, value in document.metadata.items() if name in wanted}
    return Document(
        title or Path(key).name[:_MAX_NAME],
        own | of_document,
        _below(title, document.blocks),
        document.problems,
    )


def _below(title: str, blocks: list[Block]) -> list[Block]:
    """Put a title above all headings, unless it is one of them, as the first one of Markdown is."""
    if not title or any(title in block.headings for block in blocks):
        return blocks
    return [block._replace(headings=(title, *block.headings)) for block in blocks]


def _by_size(
    read: Callable[[bytes, str, Collection[str]], Document], name: str
) -> Callable[[bytes, str, Collection[str]], Document]:
    """Return a reader that reads large objects in a process with limits.

    A small one has read its text before a process starts, and takes few seconds at worst.
    """
    read_large = bounded(name)
    return lambda data, content_type, wanted: (
        read(data, content_type, wanted)
        if len(data) <= _MAX_UNBOUNDED
        else read_large(data, content_type, wanted)
    )


#: Suffix → reader of an object's bytes, its content type, and the metadata keys of the index.
_READERS: dict[str, Callable[[bytes, str, Collection[str]], Document]] = {
    ".txt": read_text_document,
    ".md": _by_size(read_markdown_document, "markdown"),
    ".markdown": _by_size(read_markdown_document, "markdown"),
    ".html": _by_size(read_html_document, "html"),
    ".htm": _by_size(read_html_document, "html"),
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".tab": read_tsv,
    ".pdf": bounded("pdf"),
    ".docx": bounded("docx"),
    ".docm": bounded("docx"),
    ".pptx": bounded("pptx"),
    ".pptm": bounded("pptx"),
    ".ppsx": bounded("pptx"),
    ".xlsx": bounded("xlsx"),
    ".xlsm": bounded("xlsx"),
    ".json": bounded("json_tree"),
    ".epub": bounded("epub"),
    ".ipynb": bounded("ipynb"),
    ".rst": bounded("rst"),
    ".eml": bounded("eml"),
}
