"""An object to its chunks, with the metadata of an index.

What cannot be read whole is refused by name.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson

from embedder.core.search import HEADING_SEPARATOR
from jobs.documents.chunking import Chunker
from jobs.documents.document import Chunk, RefusedDocumentError
from jobs.documents.reader import read_document
from jobs.load.index_client import metadata_problem
from jobs.storage import Folder

#: Changes when an equal object gives other chunks, or an equal chunk another vector.
FORMAT = 2
#: Bytes of an object.
_MAX_BYTES = 32 * 1024 * 1024
_MAX_CHUNKS = 10_000
#: Of a document's tokens that the model may lack. With all-MiniLM-L6-v2, manual pages in six
#: languages of Europe have up to 2 %, most in Japanese over 10 %, and most in Chinese over 40 %.
_MAX_UNKNOWN = 0.1


class ChunkCounts(NamedTuple):
    """Numbers of the chunks of one document or of several; sizes are in tokens of the texts."""

    chunks: int = 0
    #: Of all chunks; the overlaps count in both.
    tokens: int = 0
    #: Tokens of text that the model's vocabulary lacks, which all have one meaning for it. The
    #: tokenizers of some models know every byte.
    unknown: int = 0
    #: Paragraphs, tables, code and rows that are longer than a chunk.
    cut: int = 0
    #: The tokens of the longest chunk, and of the shortest one; 0 without a chunk.
    longest: int = 0
    shortest: int = 0

    @property
    def unknown_share(self) -> float:
        """The share of unknown tokens, from 0 to 1."""
        return self.unknown / max(1, self.tokens)

    def plus(self, other: "ChunkCounts") -> "ChunkCounts":
        """Return the sums, the longest and the shortest of both."""
        shortest = min(filter(None, (self.shortest, other.shortest)), default=0)
        sums = ChunkCounts(*map(sum, zip(self, other, strict=True)))
        return sums._replace(longest=max(self.longest, other.longest), shortest=shortest)


class DocumentChunks(NamedTuple):
    """The chunks of an object."""

    #: Their metadata, with their texts, by the keys of their vectors.
    metadata: dict[str, dict[str, Any]]
    #: Sentences on what was left out, or on what no search will find.
    problems: tuple[str, ...] = ()
    counts: ChunkCounts = ChunkCounts()


def read_chunks(
    folder: Folder,
    key: str,
    size: int,
    chunker: Chunker,
    *,
    wanted: Collection[str],
    non_filterable: Collection[str],
) -> DocumentChunks:
    """Return the chunks of an object, none of one that does not exist.

    What cannot be read, or be in the index, is a `RefusedDocumentError`. `wanted` are the metadata
    keys of the index; no query can filter by those of `non_filterable`.
    """
    check_size(size)
    read = folder.read_object(key)
    if read is None:
        return DocumentChunks({})
    return divide(
        key, read.data, read.attributes, chunker, wanted=wanted, non_filterable=non_filterable
    )


def check_size(size: int) -> None:
    """Refuse an object of too many bytes."""
    if size > _MAX_BYTES:
        raise RefusedDocumentError(f"it has {size:,} bytes; up to {_MAX_BYTES:,} are allowed")


def divide(
    key: str,
    data: bytes,
    attributes: Mapping[str, str],
    chunker: Chunker,
    *,
    wanted: Collection[str],
    non_filterable: Collection[str],
) -> DocumentChunks:
    """Return the chunks of an object with this content; see `read_chunks`."""
    document = read_document(key, data, attributes, wanted=wanted)
    chunks: dict[str, dict[str, Any]] = {}
    repeats: Counter[str] = Counter()
    counts = ChunkCounts()
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
        chunks[chunk_key(content, repeats[content])] = metadata
        counts = counts.plus(_counts_of(chunk))
    if len(chunks) > _MAX_CHUNKS:
        raise RefusedDocumentError(f"it has more than {_MAX_CHUNKS:,} chunks")
    if not chunks:
        raise RefusedDocumentError("it has no text with tokens of the model")
    problems = document.problems
    if counts.unknown_share > _MAX_UNKNOWN:
        share = f"{counts.unknown_share:.0%} of its tokens"
        problems += (f"{share} are unknown to the model, which is for other languages",)
    return DocumentChunks(chunks, problems, counts)


def _counts_of(chunk: Chunk) -> ChunkCounts:
    tokens = chunk.tokens
    return ChunkCounts(1, tokens, chunk.unknown, int(chunk.piece == 1), tokens, tokens)


def chunk_key(content: str, number: int) -> str:
    """Return the key of a vector: of the chunks with this content, the one of this number, from 1.

    It begins with the format that the vector was made in.
    """
    return f"{FORMAT}-{digest(content, number)}"


def is_current(name: str) -> bool:
    """Return whether the vector with this key is of the format of now."""
    return name.startswith(f"{FORMAT}-")


def digest(*parts: Any) -> str:
    """Return a hash of values for JSON."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
