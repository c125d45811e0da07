"""`embed chunk`: the chunks of a document, or of a folder of them."""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from embedding_client._arguments import URL_VARIABLE
from embedding_client._auth import LOOPBACK
from embedding_client._client import EmbeddingClient
from embedding_client.document_summary import DocumentSummary
from embedding_client.errors import FileError, RequestError, counted, print_error

_INCOMPLETE = 3
#: Bytes of a document that `[ingest]` reads.
_MAX_BYTES = 32 * 1024 * 1024
#: Metadata of which each chunk of a document has the same, or that is shown above it.
_SHOWN = {"document", "title", "headings", "tenant"}


def chunk(args: argparse.Namespace) -> int:
    """Run `embed chunk`: print the chunks, and in the end what became of the documents."""
    summary = DocumentSummary()
    with EmbeddingClient(args.url or _local_url()) as client:
        for name, file in _files(args.file):
            try:
                data = _content(file)
            except FileError as error:
                if not args.file.is_dir():
                    raise
                print_error(summary.refuse(name, str(error)))
                continue
            if data is None:
                print_error(summary.refuse(name, f"it has more than {_MAX_BYTES:,} bytes"))
                continue
            try:
                document = client.chunk(
                    name,
                    data,
                    metadata=args.metadata,
                    chunk_tokens=args.tokens,
                    overlap_tokens=args.overlap,
                )
            except RequestError as error:
                if error.code != "refused_document":
                    raise
                print_error(summary.refuse(name, error.reason))
                continue
            _show(name, document, as_json=args.json)
            for line in summary.add(name, document["counts"], document["problems"]):
                print_error(line)
    # That one file cannot be read is said above.
    for line in summary.lines() if summary.documents or summary.refused > 1 else ():
        print_error(line)
    if not summary.refused:
        return 0
    return _INCOMPLETE if summary.documents else 1


def _local_url() -> str:
    """Return the URL of `scripts/serve`: a deployed endpoint divides no documents."""
    url = os.environ.get(URL_VARIABLE, "")
    try:
        is_local = urlsplit(url).hostname in LOOPBACK
    except ValueError:
        is_local = False
    return url if is_local else "http://127.0.0.1:9000"


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield names and files: of a folder those that `[ingest]` does not ignore."""
    if not path.is_dir():
        yield path.name, path
        return
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith((".", "_", "~$")) for part in name.parts):
            # A name that is no text in UTF-8 cannot be the key of an object.
            yield os.fsencode(name.as_posix()).decode(errors="replace"), file


def _content(file: Path) -> bytes | None:
    """Return the bytes of a file; None if it is too large."""
    try:
        return file.read_bytes() if file.stat().st_size <= _MAX_BYTES else None
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}.") from error


def _show(name: str, document: dict[str, Any], *, as_json: bool) -> None:
    if not as_json:
        print(f"=== {name}: {document['title']}\n")
    for number, passage in enumerate(document["chunks"], 1):
        if as_json:
            print(json.dumps(passage, ensure_ascii=False))
            continue
        path = " > ".join(filter(None, [str(number), passage["headings"]]))
        print(f"--- {path}  ({counted(passage['tokens'], 'token')})")
        for key, value in passage["metadata"].items():
            if key not in _SHOWN:
                print(f"{key}: {json.dumps(value, ensure_ascii=False)}")
        print(f"{passage['text']}\n")
