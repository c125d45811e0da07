"""The base of indexes that can be searched, and the local ones, which the image carries.

The local index has entries and their vectors, and is searched by brute force. A matrix product
over 100,000 vectors of 384 floats takes about 10 ms, which is enough for what fits into an image;
beyond that, `embedder.core.s3_vectors` searches an index of S3 Vectors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from embedder.core.errors import IndexFolderError

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

FORMAT_VERSION = 1
#: The most entries that one search of a local index returns.
MAX_RESULTS = 1000
#: Between the headings of an entry's metadata.
HEADING_SEPARATOR = " > "
#: The file of an index that has BM25: `embedder.core.bm25` reads it.
WORDS_FILE = "words.npy"
_NONE: Mapping[str, Any] = MappingProxyType({})


class IndexMatch(NamedTuple):
    """An entry of an index and the cosine of its angle to the query, or another score."""

    #: None if the index does not have it.
    text: str | None
    #: Its place in a local index, from 0.
    position: int | None
    score: float
    id: str
    metadata: Mapping[str, Any] = _NONE
    #: Of an index that fuses searches itself: the scores by search, last the one in `score`.
    scores: Mapping[str, float] = _NONE


def passage(text: str, metadata: Mapping[str, Any]) -> str:
    """Return what is embedded and reranked of an entry: its headings, an empty line, its text.

    Other indexes may have metadata of that name and of another type.
    """
    headings = metadata.get("headings")
    has_headings = bool(text and headings) and isinstance(headings, str)
    return f"{headings}\n\n{text}" if has_headings else text


class SearchIndex:
    """An index that can be searched."""

    #: The most entries that one search returns.
    max_results = MAX_RESULTS
    #: The number of entries; None if the index does not know it.
    entries: int | None = None
    #: Whether its entries have metadata, by which a search can be filtered.
    takes_filter = False
    #: The most characters of words that a search looks for besides; 0 for none.
    text_characters = 0
    #: The vector space of the vectors, after `prepare`.
    vector_space = ""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the vectors, after `prepare`."""
        return int(self.vector_space.rpartition("/")[2])

    def prepare(self, deadline: float | None) -> None:
        """Make sure that the index can be searched, before a text is embedded for it.

        Otherwise, an `AnswerableError` says why not.
        """

    def search(
        self,
        query: npt.NDArray[np.float32],
        num_results: int,
        *,
        where: Mapping[str, Any] | None = None,
        text: str = "",
        deadline: float | None = None,
    ) -> list[IndexMatch]:
        """Return the entries most similar to a query, best first, up to `num_results`.

        The query is float32 [dimensions], of length 1, of the index's vector space. `where` says
        which metadata an entry must have, where the index takes such a filter, and `text` the words
        to look for besides, up to `text_characters`. Failed calls are retried until the deadline, a
        `time.monotonic()`.

        Raises:
            AnswerableError: if the index does not answer, or does not accept the filter.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what a snapshot must not carry."""


class EntryMetadata(NamedTuple):
    """An id and metadata, which an entry of a local index may have besides its text."""

    id: str
    metadata: Mapping[str, Any]


class LocalIndex(SearchIndex):
    """Texts, and the vectors or postings that a search reads.

    Without `metadata`, the id of a text is its position.
    """

    def __init__(
        self,
        texts: Sequence[str],
        searched: Any,
        vector_space: str,
        metadata: Sequence[EntryMetadata] | None = None,
    ) -> None:
        self.texts, self.searched, self.metadata = texts, searched, metadata
        self.vector_space, self.entries = vector_space, len(texts)
        self.takes_filter = metadata is not None

    def scores(self, query: Any) -> npt.NDArray[Any]:
        """Return the score of each entry, float [n]; an entry of -inf is not found."""
        raise NotImplementedError

    def search(
        self,
        query: Any,
        num_results: int,
        *,
        where: Mapping[str, Any] | None = None,
        text: str = "",  # noqa: ARG002 - the index takes none
        deadline: float | None = None,  # noqa: ARG002 - a search takes milliseconds
    ) -> list[IndexMatch]:
        """See `SearchIndex`; entries of equal scores are in index order."""
        scores = self.scores(query)
        if where is not None:
            from embedder.core.metadata_matching import matches  # noqa: PLC0415 - on demand

            is_match = [matches(where, entry.metadata) for entry in self.metadata or ()]
            scores = np.where(is_match, scores, -np.inf)
        count = min(num_results, int(np.count_nonzero(scores > -np.inf)))
        if not count:
            return []
        best = np.argpartition(-scores, count - 1)[:count]
        # Of equal scores, those before the cut are any: take the first ones.
        lowest = scores[best].min()
        above = np.flatnonzero(scores > lowest)
        equal = np.flatnonzero(scores == lowest)[: count - len(above)]
        best = np.concatenate([above[np.argsort(-scores[above], kind="stable")], equal])
        return [
            IndexMatch(
                self.texts[position],
                position,
                float(scores[position]),
                *(self.metadata[position] if self.metadata else (str(position), _NONE)),
            )
            for position in best.tolist()
        ]


class DenseIndex(LocalIndex):
    """Entries and their dense vectors, float32 [n, dimensions], rows of length 1."""

    def scores(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the cosines."""
        return self.searched @ query  # type: ignore[no-any-return]


def load_index(folder: str | os.PathLike[str], *, spaces: Sequence[str]) -> DenseIndex:
    """Read an index of one of the spaces that the model serves.

    The folder has `manifest.json`, `vectors.npy` and `entries.json`.

    Raises:
        IndexFolderError: if it is incomplete, of a newer format, or of another space.
    """
    texts, metadata, space = read_entries(folder, spaces=spaces)
    vectors = mapped(os.path.join(folder, "vectors.npy"), np.float32, dimensions=2)
    shape = (len(texts), int(space.rpartition("/")[2]))
    if vectors.shape != shape:
        raise IndexFolderError(
            f"{folder} has vectors of shape {vectors.shape}; its manifest says {shape}."
        )
    return DenseIndex(texts, vectors, space, metadata)


def read_space(
    folder: str | os.PathLike[str], *, spaces: Sequence[str], field: str = "vector_space"
) -> tuple[str, int]:
    """Return the vector space of a local index, from that field of its manifest, and its size."""
    where = os.path.join(folder, "manifest.json")
    manifest = _json(where)
    if not isinstance(manifest, dict):
        raise IndexFolderError(f"{where} must be a JSON object.")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise IndexFolderError(
            f"{where} has format_version {version}; this embedder reads {FORMAT_VERSION}."
        )
    space, count = manifest.get(field, ""), manifest.get("count", 0)
    if space not in spaces:
        raise IndexFolderError(
            f"{where} has {space or 'no'} {field}; the model serves {', '.join(spaces)}. "
            "Vectors of two spaces cannot be compared: build the index again with this model."
        )
    return space, count


def read_entries(
    folder: str | os.PathLike[str], *, spaces: Sequence[str]
) -> tuple[list[str], list[EntryMetadata] | None, str]:
    """Return the entries of a local index and its vector space; see `load_index`.

    An entry is a text, or an object with `id`, `text` and `metadata`; all are of one form.
    """
    space, count = read_space(folder, spaces=spaces)
    entries = os.path.join(folder, "entries.json")
    document = _json(entries)
    rows: list[Any] = document if isinstance(document, list) else [None]
    metadata = None
    if rows and all(isinstance(row, dict) for row in rows):
        metadata = [EntryMetadata(row.get("id"), row.get("metadata")) for row in rows]
        rows = [row.get("text") for row in rows]
    if not all(isinstance(text, str) for text in rows) or not all(
        isinstance(entry.id, str) and isinstance(entry.metadata, dict) for entry in metadata or ()
    ):
        raise IndexFolderError(
            f"{entries} must be a list of strings, or of objects with id, text and metadata."
        )
    if len(rows) != count:
        raise IndexFolderError(f"{folder} has {len(rows)} entries; its manifest says {count}.")
    return rows, metadata, space


def mapped(path: str, dtype: npt.DTypeLike, *, dimensions: int) -> npt.NDArray[Any]:
    """Map a file of an index: its pages come as the first search wants them."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy reads the header as a Python expression.
        raise IndexFolderError(f"{path} cannot be read as an array: {error}.") from error
    if array.dtype != dtype or array.ndim != dimensions:
        raise IndexFolderError(
            f"{path} must be {np.dtype(dtype)} of {dimensions} dimensions; found {array.dtype} "
            f"{array.shape}."
        )
    # As a plain array: indexing a `memmap` makes another one each time.
    return np.asarray(array)


def _json(path: str) -> object:
    try:
        with open(path, "rb") as file:
            return orjson.loads(file.read())
    except OSError as error:
        raise IndexFolderError(f"{path} cannot be read ({error.strerror}).") from error
    except orjson.JSONDecodeError as error:
        raise IndexFolderError(f"{path} is not JSON: {error}.") from error
