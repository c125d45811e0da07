"""The protocol of an index that can be searched, and the one that an image may carry.

The carried index has texts and their vectors, and is searched by brute force. A matrix product over
100,000 vectors of 384 floats takes about 10 ms, so nothing cleverer is wanted at the sizes that fit
into an image; beyond that, `embedder.core.s3_vectors` searches an index of S3 Vectors.
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
#: The most entries that one search of a carried index returns.
MAX_RESULTS = 1000
_NONE: Mapping[str, Any] = MappingProxyType({})


class Match(NamedTuple):
    """An entry of an index and the cosine of its angle to the query."""

    #: None if the index does not have it.
    text: str | None
    #: Its place in a carried index, from 0.
    position: int | None
    score: float
    id: str
    metadata: Mapping[str, Any] = _NONE


class Searchable:
    """An index that can be searched."""

    #: The most entries that one search returns.
    max_results = MAX_RESULTS
    #: The number of entries; None if the index does not know it.
    entries: int | None = None
    #: Whether its entries have metadata, by which a search can be filtered.
    takes_filter = False

    @property
    def vector_space(self) -> str:
        """The vector space of the vectors, after `prepare`."""
        raise NotImplementedError

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the vectors, after `prepare`."""
        return int(self.vector_space.rpartition("/")[2])

    def prepare(self, deadline: float | None) -> None:
        """Make sure that the index can be searched, before a text is embedded for it.

        Raises:
            AnswerableError: if it cannot be searched.
        """

    def search(
        self,
        query: npt.NDArray[np.float32],
        num_results: int,
        *,
        where: Mapping[str, Any] | None = None,
        deadline: float | None = None,
    ) -> list[Match]:
        """Return the entries most similar to a query, best first.

        Args:
            query: float32 [dimensions], of length 1, of the index's vector space.
            num_results: how many to return; all that are found, if there are fewer.
            where: which metadata an entry must have, where the index takes such a filter.
            deadline: the `time.monotonic()` until which failed calls are retried.

        Raises:
            AnswerableError: if the index does not answer, or does not accept the filter.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what a snapshot must not carry."""


class SearchIndex(Searchable):
    """Texts and their vectors.

    Args:
        texts: The entries.
        vectors: float32 [n, dimensions], rows of length 1.
        vector_space: The space of all vectors.
    """

    def __init__(
        self, texts: Sequence[str], vectors: npt.NDArray[np.float32], vector_space: str
    ) -> None:
        self.texts, self.vectors, self._space = texts, vectors, vector_space
        self.entries = len(texts)

    @property
    def vector_space(self) -> str:
        """See `Searchable`."""
        return self._space

    def search(
        self,
        query: npt.NDArray[np.float32],
        num_results: int,
        *,
        where: Mapping[str, Any] | None = None,  # noqa: ARG002 - the API refuses a filter
        deadline: float | None = None,  # noqa: ARG002 - a search takes milliseconds
    ) -> list[Match]:
        """See `Searchable`; equal scores are in index order."""
        scores = self.vectors @ query
        count = min(num_results, len(self.texts))
        if not count:
            return []
        best = np.argpartition(-scores, count - 1)[:count]
        # Rounding may put an equal score on either side of the partition; the order is still fixed.
        best = best[np.lexsort((best, -scores[best]))]
        return [
            Match(self.texts[position], position, float(scores[position]), str(position))
            for position in map(int, best)
        ]


def load_index(folder: str | os.PathLike[str], *, spaces: Sequence[str]) -> SearchIndex:
    """Read an index.

    Args:
        folder: `manifest.json`, `vectors.npy` and `entries.json`.
        spaces: the vector spaces that the model serves, one for each allowed number of dimensions.

    Raises:
        IndexFolderError: if the folder is not an index, is of a newer format, is incomplete, or
            holds vectors of a space that the model does not serve.
    """
    texts, space = read_entries(folder, spaces=spaces)
    vectors = mapped(os.path.join(folder, "vectors.npy"), np.float32, dimensions=2)
    shape = (len(texts), int(space.rpartition("/")[2]))
    if vectors.shape != shape:
        raise IndexFolderError(
            f"{folder} has vectors of shape {vectors.shape}; its manifest says {shape}."
        )
    return SearchIndex(texts=texts, vectors=vectors, vector_space=space)


def read_space(
    folder: str | os.PathLike[str], *, spaces: Sequence[str], field: str = "vector_space"
) -> tuple[str, int]:
    """Return the vector space of a carried index, from that field of its manifest, and its size.

    Raises:
        IndexFolderError: if the folder is not an index of one of the spaces.
    """
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


def read_entries(folder: str | os.PathLike[str], *, spaces: Sequence[str]) -> tuple[list[str], str]:
    """Return the texts of a carried index and its vector space; see `load_index`.

    Raises:
        IndexFolderError: if the folder is not an index of one of the spaces.
    """
    space, count = read_space(folder, spaces=spaces)
    entries = os.path.join(folder, "entries.json")
    texts = _json(entries)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise IndexFolderError(f"{entries} must be a list of strings.")
    if len(texts) != count:
        raise IndexFolderError(f"{folder} has {len(texts)} entries; its manifest says {count}.")
    return texts, space


def mapped(path: str, dtype: npt.DTypeLike, *, dimensions: int) -> npt.NDArray[Any]:
    """Map a file of an index: its pages come as the first search wants them.

    Raises:
        IndexFolderError: if it is no such array.
    """
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
