"""Texts to sparse vectors: a weight for each token of a vocabulary, of which most are 0.

The session gives a row for each input, float32 [vocabulary]; the numbers other than 0 are kept. A
model has ONNX Runtime's session. A table of token weights, with which queries need no model, has
numpy alone: its tokenizer and 120 kB are all that a start loads.

The local index of a sparse encoder has postings of impacts in 16 bits, which are mapped. A
posting is an entry that has a token, with the impact of the token there. An impact times the
token's scale is the weight. A search reads the postings of the query's tokens alone and adds up
their products exactly: over 100,000 entries of 120 tokens, a query of 20 takes 1.8 ms of CPU.

Imported on demand: no embedding model pays for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from embedder.core.artifact import Artifact, Manifest
from embedder.core.embedding_request import Embeddings, Timings
from embedder.core.engine import Engine
from embedder.core.errors import IndexFolderError, InferenceError
from embedder.core.model_runner import LoadedSession, ModelRunner
from embedder.core.search import EntryMetadata, LocalIndex, mapped, read_entries, read_space

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: Most bytes of the rows of a block of inputs, and of the logits of a run: 4 a token of the
#: vocabulary each.
_ROWS_BYTES, _LOGITS_BYTES = 16 << 20, 64 << 20
#: The largest impact.
MAX_IMPACT = 65535


class TokenWeights(NamedTuple):
    """The weights of a text that are not 0, in the order of their tokens."""

    #: Ids of tokens, uint32 [weights].
    indices: npt.NDArray[np.uint32]
    #: Float32 [weights], all positive.
    values: npt.NDArray[np.float32]

    def pruned(self, *, top_k: int | None, threshold: float | None) -> TokenWeights:
        """Return the largest `top_k` weights (of equal ones the first), from `threshold` on."""
        indices, values = self
        if threshold is not None:
            selected = np.flatnonzero(values >= np.float32(threshold))
            indices, values = indices[selected], values[selected]
        if top_k is not None and len(values) > top_k:
            selected = np.sort(np.argsort(-values, kind="stable")[:top_k])
            indices, values = indices[selected], values[selected]
        return TokenWeights(indices, values)


class SparseEncoder(Engine):
    """A sparse encoder; see `Engine`.

    The `vectors` of its embeddings are objects [inputs], each a `TokenWeights`.
    """

    task: ClassVar[str] = "sparse"

    @classmethod
    def _open(cls, artifact: Artifact, threads: int) -> LoadedSession:
        # A reranker's artifact, which is refused later, has no dimensions.
        width = max(artifact.manifest.dimensions, default=1)
        return BoundedSession(super()._open(artifact, threads), width=width)

    @property
    def runner_type(self) -> type[ModelRunner]:
        """See `LoadedModel`."""
        return SparseRunner


class BoundedSession:
    """A session that runs a part of a batch at a time, so that its logits need bounded memory."""

    def __init__(self, session: LoadedSession, *, width: int) -> None:
        self._session, self.graph_file = session, session.graph_file
        self._tokens = _LOGITS_BYTES // (4 * width)

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """See `InferenceSession.run`; one text is always allowed."""
        count, tokens = input_ids.shape
        size = max(1, self._tokens // tokens)
        if count <= size:
            return self._session.run(input_ids, attention_mask)
        blocks = [slice(start, start + size) for start in range(0, count, size)]
        return np.concatenate(
            [self._session.run(input_ids[block], attention_mask[block]) for block in blocks]
        )


class SparseRunner(ModelRunner):
    """A runner that keeps only the weights that are not 0, of a bounded block of inputs at a time.

    Inputs of similar length share a block, and so its runs.
    """

    #: A row would take as much as 80 vectors of 384 dimensions.
    keeps_rows = False

    def compute(self, distinct: list[bytes], deadline: float | None, allowed: float) -> Embeddings:
        """See `ModelRunner.compute`; the rows are objects [inputs], each a `TokenWeights`."""
        order = sorted(range(len(distinct)), key=lambda index: len(distinct[index]))
        size = max(1, _ROWS_BYTES // (4 * self._width))
        vectors = np.empty(len(distinct), object)
        results = []
        for start in range(0, len(order), size):
            indexes = order[start : start + size]
            try:
                result = super().compute([distinct[p] for p in indexes], deadline, allowed)
            except InferenceError as error:
                if error.place is not None:
                    error.place = indexes[error.place]
                raise
            results.append(result)
            for index, row in zip(indexes, result.vectors, strict=True):
                indices = np.flatnonzero(row)
                vectors[index] = TokenWeights(indices.astype(np.uint32), row[indices])
        return Embeddings(
            vectors=vectors,
            timings=Timings(queue=sum(result.timings.queue for result in results)),
            runs=[count for result in results for count in result.runs],
            padding_tokens=sum(result.padding_tokens for result in results),
            computed_tokens=sum(result.computed_tokens for result in results),
        )


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


class SparseIndex(LocalIndex):
    """Entries and the `Postings` of all their texts."""

    @property
    def dimensions(self) -> int:
        """The size of the vocabulary."""
        return len(self.searched.scales)

    def scores(self, query: TokenWeights) -> npt.NDArray[np.float64]:
        """Return the products, float64; an entry that is found shares a token with the query."""
        starts, scales, entries, impacts = self.searched
        entry_blocks, products = [np.empty(0, np.uint32)], [np.empty(0)]
        for token, weight in zip(query.indices.tolist(), query.values.tolist(), strict=True):
            postings = slice(starts[token], starts[token + 1])
            entry_blocks.append(entries[postings])
            products.append(impacts[postings] * (weight * float(scales[token])))
        weights = np.concatenate(products, dtype=np.float64)
        scores = np.bincount(np.concatenate(entry_blocks), weights, len(self.texts))
        return np.where(scores == 0, -np.inf, scores)


def make_postings(vectors: Sequence[TokenWeights], *, vocabulary: int) -> Postings:
    """Return the postings of vectors; the largest weight of a token has the largest impact."""
    tokens = np.concatenate([vector.indices for vector in vectors])
    values = np.concatenate([vector.values for vector in vectors])
    entries = np.repeat(np.arange(len(vectors)), [len(vector.indices) for vector in vectors])
    largest = np.zeros(vocabulary, np.float32)
    np.maximum.at(largest, tokens, values)
    scales = largest / np.float32(MAX_IMPACT)
    order = np.argsort(tokens, kind="stable")
    impacts = np.rint(values[order] / scales[tokens[order]])
    return Postings(
        starts=np.concatenate([[0], np.bincount(tokens, minlength=vocabulary).cumsum()]),
        scales=scales,
        entries=entries[order].astype(np.uint32),
        impacts=np.clip(impacts, 1, MAX_IMPACT).astype(np.uint16),
    )


def load_sparse_index(
    folder: str | os.PathLike[str], manifest: Manifest, *, dense: LocalIndex | None = None
) -> SparseIndex:
    """Read an index of this model: `entries.json` and a file for each field of `Postings`.

    A `dense` index of the same folder has read the entries already.
    """
    texts: Sequence[str]
    metadata: Sequence[EntryMetadata] | None
    if dense is None:
        texts, metadata, space = read_entries(folder, spaces=[manifest.space])
    else:
        texts, metadata = dense.texts, dense.metadata
        space, _ = read_space(folder, spaces=[manifest.space], field="sparse_space")
    postings = read_postings(folder, manifest.full_dimensions)
    return SparseIndex(texts, postings, space, metadata)


def read_postings(folder: str | os.PathLike[str], vocabulary: int) -> Postings:
    """Map the postings of a folder; an `IndexFolderError` if they are of another vocabulary."""
    postings = Postings(
        *(
            mapped(os.path.join(folder, f"postings.{name}.npy"), dtype, dimensions=1)
            for name, dtype in _TYPES._asdict().items()
        )
    )
    starts, scales, entries, impacts = postings
    if (
        (len(starts), len(scales)) != (vocabulary + 1, vocabulary)
        or len(entries) != len(impacts)
        or (starts[0], starts[-1]) != (0, len(entries))
    ):
        raise IndexFolderError(
            f"{folder} has {len(starts) - 1} tokens with {len(entries)} entries and "
            f"{len(impacts)} impacts up to {starts[-1]}; they must be as many as those of the "
            f"vocabulary, {vocabulary}, and as each other."
        )
    return postings
