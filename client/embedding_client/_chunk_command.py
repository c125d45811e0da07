"""`embed chunk`: the chunks of a document, or of a folder of them."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedding_client._client import EmbeddingClient
from embedding_client.document_summary import DocumentReport, DocumentSummary
from embedding_client.errors import FileError, RequestError, counted, print_error

_INCOMPLETE = 3


def chunk(args: argparse.Namespace) -> int:
    """Run `embed chunk`: print the chunks, and in the end what became of the documents."""
    summary = DocumentSummary()
    with EmbeddingClient(args.url) as client:
        for name, file in _files(args.file):
            try:
                document = client.chunk(
                    name,
                    _content(file),
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
            tokens = [passage["tokens"] for passage in document["chunks"]]
            for line in summary.add(DocumentReport(name, tokens, document["problems"])):
                print_error(line)
    for line in summary.lines():
        print_error(line)
    if not summary.refused:
        return 0
    return _INCOMPLETE if summary.documents else 1


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield names and files: of a folder those that `[ingest]` does not ignore."""
    if not path.is_dir():
        yield path.name, path
        return
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part[0] in "._" for part in name.parts):
            yield name.as_posix(), file


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FileError(f"{file} cannot be read: {error.strerror}.") from error


def _show(name: str, document: dict[str, Any], *, as_json: bool) -> None:
    if not as_json:
        print(f"=== {name}: {document['title']}")
        for key, value in document["metadata"].items():
            print(f"{key}: {json.dumps(value, ensure_ascii=False)}")
        print()
    for number, passage in enumerate(document["chunks"], 1):
        if as_json:
            metadata = {**document["metadata"], **passage["metadata"]}
            whole = {"document": name, "title": document["title"], **passage, "metadata": metadata}
            print(json.dumps(whole, ensure_ascii=False))
        else:
            path = " > ".join([str(number), *passage["headings"]])
            print(f"--- {path}  ({counted(passage['tokens'], 'token')})\n{passage['text']}\n")
