"""An object to its chunks, with the metadata of an index.

What cannot be read whole is refused by name.
"""

import hashlib
from collections import Counter
from collections.abc import Collection
from itertools import islice
from typing import Any

import orjson

from embedder.core.search import HEADING_SEPARATOR
from jobs.documents.chunking import Chunker
from jobs.documents.document import RefusedDocumentError
from jobs.documents.reader import read_document
from jobs.load.index_client import metadata_problem
from jobs.storage import Folder

#: Bytes of an object.
_MAX_BYTES = 32 * 1024 * 1024
_MAX_CHUNKS = 10_000


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
            metadata["headings"] = HEADING_SEPARATOR.join(chunk.headings)
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
