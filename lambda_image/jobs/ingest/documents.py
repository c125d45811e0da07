"""An object to a title, metadata and blocks of text, and to chunks with the metadata of an index.

What cannot be read whole is refused by name.

Rows of JSONL and CSV are sections: their text is the field `text`, or all fields as lines.
"""

import csv
import hashlib
import io
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from embedder.core.chunking import Block, Chunker, read_blocks, split_front_matter
from jobs.errors import BatchError
from jobs.load.index_client import metadata_problem
from jobs.rows import (
    Fields,
    cells_problem,
    csv_cells,
    csv_fields,
    header_problem,
    json_fields,
    text_problem,
)
from jobs.storage import Folder

#: Bytes of an object.
_MAX_BYTES = 32 * 1024 * 1024
_MAX_BLOCKS = 200_000
_MAX_CHUNKS = 10_000
_MAX_NAME = 256
_MAX_HEADINGS = 512
_PDF_SECONDS = 120
_TEXT = "text"
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_ENTRY = re.compile(r"([A-Za-z0-9_.-]+)[ \t]*:[ \t]*(.*)")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?")


class RefusedDocumentError(BatchError):
    """A document cannot be read. The same object is refused again."""


class Document(NamedTuple):
    """Title, metadata and blocks of an object."""

    title: str
    metadata: dict[str, Any]
    blocks: list[Block]


def read_chunks(
    folder: Folder,
    key: str,
    size: int,
    chunker: Chunker,
    *,
    wanted: Collection[str],
    non_filterable: Collection[str],
) -> dict[str, dict[str, Any]]:
    """Return the metadata of an object's chunks, with their texts, by the keys of vectors.

    An object that does not exist has none. What cannot be read, or be in the index, is a
    `RefusedDocumentError`. `wanted` are the metadata keys of the index; no query can filter by
    those of `non_filterable`.
    """
    if size > _MAX_BYTES:
        raise RefusedDocumentError(f"it has {size:,} bytes; up to {_MAX_BYTES:,} are allowed")
    read = folder.read_object(key)
    if read is None:
        return {}
    document = read_document(key, read.data, read.attributes, wanted=wanted)
    chunks: dict[str, dict[str, Any]] = {}
    repeats: Counter[str] = Counter()
    for chunk in islice(chunker.chunks(document.blocks), _MAX_CHUNKS + 1):
        metadata: dict[str, Any] = {
            **document.metadata,
            **chunk.metadata,
            "document": key,
            "title": document.title,
            "text": chunk.text,
        }
        if "/" in key:
            metadata["tenant"] = key.partition("/")[0]
        if chunk.headings:
            metadata["headings"] = " > ".join(chunk.headings)[:_MAX_HEADINGS]
        problem = metadata_problem(metadata, non_filterable=non_filterable)
        if problem:
            raise RefusedDocumentError(f"chunk {len(chunks) + 1} has {problem}")
        # Equal chunks of a document are told apart by a number, not by their places: an inserted
        # paragraph changes no other chunk.
        content = digest(key, metadata)
        repeats[content] += 1
        chunks[digest(content, repeats[content])] = metadata
    if len(chunks) > _MAX_CHUNKS:
        raise RefusedDocumentError(f"it has more than {_MAX_CHUNKS:,} chunks")
    if not chunks:
        raise RefusedDocumentError("it has no text with tokens of the model")
    return chunks


def digest(*parts: Any) -> str:
    """Return a hash of values for JSON."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


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
    own = {name: _scalar(attributes[name.lower()]) for name in wanted if name.lower() in attributes}
    title, front, blocks = read(data, attributes.get("Content-Type", ""), wanted)
    if not blocks:
        raise RefusedDocumentError("it has no text")
    if len(blocks) > _MAX_BLOCKS:
        raise RefusedDocumentError(
            f"it has {len(blocks):,} paragraphs or rows; up to {_MAX_BLOCKS:,} are allowed"
        )
    title = str(front.get("title") or title or Path(key).name)
    from_front = {name: value for name, value in front.items() if name in wanted}
    return Document(title[:_MAX_NAME], own | from_front, blocks)


_Read = tuple[str, dict[str, Any], list[Block]]


def _prose(format: str) -> Callable[[bytes, str, Collection[str]], _Read]:  # noqa: A002
    def read(data: bytes, content_type: str, wanted: Collection[str]) -> _Read:
        text = _decoded(data, content_type)
        front = _front_matter(text, wanted) if format == "markdown" else {}
        title, blocks = read_blocks(text, format)
        return title, front, blocks

    return read


def _decoded(data: bytes, content_type: str) -> str:
    """Decode text: UTF-8, UTF-16 with a byte order mark, or what the content type names."""
    charset = _CHARSET.search(content_type)
    name = charset[1] if charset else "utf-8-sig"
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        name = "utf-16"
    try:
        text = data.decode("utf-8-sig" if name.lower() in {"utf-8", "utf8"} else name)
    except UnicodeDecodeError as error:
        raise RefusedDocumentError(
            f"byte {error.start} is not {error.encoding}; other encodings need a charset in the "
            "content type"
        ) from None
    except (LookupError, UnicodeError):
        raise RefusedDocumentError(f"its charset must be a text encoding; found {name}") from None
    if "\0" in text:
        raise RefusedDocumentError("it has NUL characters, which text has not")
    return text


def _front_matter(text: str, wanted: Collection[str]) -> dict[str, Any]:
    """Return the entries of front matter.

    An entry has one line, or a list one line for each item, as most of YAML's front matter. A
    wanted entry of another form is refused; others are left out.
    """
    entries: dict[str, Any] = {}
    name = ""
    for number, line in enumerate(split_front_matter(text)[0], 2):
        entry = _ENTRY.fullmatch(line.rstrip())
        item = re.fullmatch(r"\s*-\s+(.*)", line.rstrip())
        if entry:
            name = entry[1]
            if name in entries:
                raise RefusedDocumentError(f"line {number}: the front matter has {name} twice")
            entries[name] = _value(entry[2])
        elif item and name and isinstance(entries[name], list):
            entries[name].append(_scalar(item[1]))
        elif line.strip() and not line.lstrip().startswith("#") and name in {*wanted, "title"}:
            raise RefusedDocumentError(
                f"line {number}: {name} in the front matter must be a value or a list of values"
            )
    return {name: value for name, value in entries.items() if value != []}


def _value(text: str) -> Any:
    """Return a value of front matter; nothing begins a list on the following lines."""
    if not text:
        return []
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(item) for item in next(csv.reader([text[1:-1]], skipinitialspace=True), [])]
    return _scalar(text)


def _scalar(text: str) -> Any:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def _json_lines(data: bytes, content_type: str, wanted: Collection[str]) -> _Read:
    lines = enumerate(_decoded(data, content_type).split("\n"), 1)
    rows = (
        (number, *json_fields(line, parse=orjson.loads)) for number, line in lines if line.strip()
    )
    return "", {}, _blocks(rows, wanted)


def _csv(data: bytes, content_type: str, wanted: Collection[str]) -> _Read:
    def rows() -> Iterator[tuple[int, Fields, str | None]]:
        for number, cells in lines:
            if cells:
                fields, problem = csv_fields(header, cells)
                if len(cells) < len(header):
                    problem = cells_problem(header, cells)
                values = {name: _scalar(fields[name]) for name in wanted if fields.get(name)}
                yield number, {**fields, **values}, problem

    lines = csv_cells(io.StringIO(_decoded(data, content_type), newline=""))
    try:
        _, header = next(lines, (1, []))
        if problem := header_problem(header):
            raise RefusedDocumentError(f"it {problem}")
        return "", {}, _blocks(rows(), wanted)
    except csv.Error as error:
        raise RefusedDocumentError(f"it {error}") from None


def _blocks(rows: Iterable[tuple[int, Fields, str | None]], wanted: Collection[str]) -> list[Block]:
    blocks = []
    for number, fields, problem in islice(rows, _MAX_BLOCKS + 1):
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


def _pdf(data: bytes, _content_type: str, _wanted: Collection[str]) -> _Read:
    """Read the text layer of a PDF, in a process with limits: a page can ask for any memory."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "jobs.ingest.pdf"],
            input=data,
            capture_output=True,
            timeout=_PDF_SECONDS,
            env={"PYTHONPATH": ":".join(sys.path)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RefusedDocumentError(f"its text takes more than {_PDF_SECONDS} seconds") from None
    if done.returncode == 1:
        raise RefusedDocumentError(done.stderr.decode(errors="replace").strip()[-200:])
    if done.returncode:
        raise RefusedDocumentError("its text takes more memory or time than allowed")
    title, pages = orjson.loads(done.stdout)
    blocks = []
    for number, page in enumerate(pages, 1):
        _, page_blocks = read_blocks(page, "text")
        blocks += [
            block._replace(headings=(f"page {number}",), section=number) for block in page_blocks
        ]
    return title, {}, blocks


_READERS = {
    ".txt": _prose("text"),
    ".md": _prose("markdown"),
    ".markdown": _prose("markdown"),
    ".html": _prose("html"),
    ".htm": _prose("html"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".csv": _csv,
    ".pdf": _pdf,
}
