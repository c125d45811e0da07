"""The carried index of a sparse encoder: postings of impacts in 16 bits, which are mapped.

A posting is an entry that has a token, with the impact of the token there. An impact times the
token's scale is the weight. A search reads the postings of the query's tokens alone and adds up
their products exactly: over 100,000 entries of 120 tokens, a query of 20 takes 1.8 ms of CPU.

Imported on demand: no embedding model pays for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedder.core.artifact import Manifest
from embedder.core.errors import IndexFolderError
from embedder.core.search import About, CarriedIndex, mapped, read_entries, read_space
from embedder.core.sparse_encoder import SparseVector

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: The largest impact.
MAX_IMPACT = 65535


class Postings(NamedTuple):
    """The postings of all tokens, one token after the other; each is a file of its name."""

    #: Where a token's postings begin, and the last ones end: int64 [vocabulary + 1].
    starts: npt.NDArray[np.int64]
    #: What each token's impacts are multiplied by: float32 [vocabulary].
    scales: npt.NDArray[np.float32]
    #: The place of each posting's entry: uint32 [postings].
    entries: npt.NDArray[np.uint32]
    #: Uint16 [postings], at least 1. With 8 bits, entries of near scores changed places in a third
    #: of the searches.
    impacts: npt.NDArray[np.uint16]


_TYPES = Postings(np.int64, np.float32, np.uint32, np.uint16)  # type: ignore[arg-type]


class SparseIndex(CarriedIndex):
    """Entries and the `Postings` of all their texts."""

    @property
    def dimensions(self) -> int:
        """The size of the vocabulary."""
        return len(self.searched.scales)

    def scores(self, query: SparseVector) -> npt.NDArray[np.float64]:
        """Return the products, float64; an entry that is found shares a token with the query."""
        starts, scales, entries, impacts = self.searched
        places, products = [np.empty(0, np.uint32)], [np.empty(0)]
        for token, weight in zip(query.indices.tolist(), query.values.tolist(), strict=True):
            there = slice(starts[token], starts[token + 1])
            places.append(entries[there])
            products.append(impacts[there] * (weight * float(scales[token])))
        weights = np.concatenate(products, dtype=np.float64)
        scores = np.bincount(np.concatenate(places), weights, len(self.texts))
        return np.where(scores == 0, -np.inf, scores)


def make_postings(vectors: Sequence[SparseVector], *, vocabulary: int) -> Postings:
    """Return the postings of vectors; the largest weight of a token has the largest impact."""
    tokens = np.concatenate([vector.indices for vector in vectors])
    values = np.concatenate([vector.values for vector in vectors])
    places = np.repeat(np.arange(len(vectors)), [len(vector.indices) for vector in vectors])
    largest = np.zeros(vocabulary, np.float32)
    np.maximum.at(largest, tokens, values)
    scales = largest / np.float32(MAX_IMPACT)
    order = np.argsort(tokens, kind="stable")
    impacts = np.rint(values[order] / scales[tokens[order]])
    return Postings(
        starts=np.concatenate([[0], np.bincount(tokens, minlength=vocabulary).cumsum()]),
        scales=scales,
        entries=places[order].astype(np.uint32),
        impacts=np.clip(impacts, 1, MAX_IMPACT).astype(np.uint16),
    )


def load_sparse_index(
    folder: str | os.PathLike[str], manifest: Manifest, *, dense: CarriedIndex | None = None
) -> SparseIndex:
    """Read an index of this model: `entries.json` and a file for each field of `Postings`.

    A `dense` index of the same folder has read the entries already.
    """
    texts: Sequence[str]
    about: Sequence[About] | None
    if dense is None:
        texts, about, space = read_entries(folder, spaces=[manifest.space])
    else:
        texts, about = dense.texts, dense.about
        space, _ = read_space(folder, spaces=[manifest.space], field="sparse_space")
    postings = Postings(
        *(
            mapped(os.path.join(folder, f"postings.{name}.npy"), dtype, dimensions=1)
            for name, dtype in _TYPES._asdict().items()
        )
    )
    starts, size = postings.starts, manifest.full_dimensions
    if (
        (len(starts), len(postings.scales)) != (size + 1, size)
        or len(postings.entries) != len(postings.impacts)
        or (starts[0], starts[-1]) != (0, len(postings.entries))
    ):
        raise IndexFolderError(
            f"{folder} has {len(starts) - 1} tokens with {len(postings.entries)} entries and "
            f"{len(postings.impacts)} impacts up to {starts[-1]}; they must be as many as those of "
            f"the model's vocabulary, {size}, and as each other."
        )
    return SparseIndex(texts, postings, space, about)
