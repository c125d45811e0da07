"""Texts to sparse vectors: a weight for each token of a vocabulary, of which most are 0.

The session gives a row for each input, float32 [vocabulary]; what is not 0 is kept. A model has
ONNX Runtime's session. A table of token weights, with which queries need no model, has numpy alone:
its tokenizer and 120 kB are all that a start loads.

Imported on demand: no embedding model pays for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from embedder.core.artifact import Artifact
from embedder.core.batching import Runs
from embedder.core.embedding_request import Embeddings, Timings
from embedder.core.engine import Engine
from embedder.core.errors import InferenceError
from embedder.core.runtimes import InferenceSession

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: Most bytes of the rows of a block of inputs, and of the logits of a run: 4 a token of the
#: vocabulary each.
_ROWS_BYTES, _LOGITS_BYTES = 16 << 20, 64 << 20


class SparseVector(NamedTuple):
    """The weights of a text that are not 0, in the order of their tokens."""

    #: Ids of tokens, uint32 [weights].
    indices: npt.NDArray[np.uint32]
    #: Float32 [weights], all positive.
    values: npt.NDArray[np.float32]

    def pruned(self, *, top_k: int | None, threshold: float | None) -> SparseVector:
        """Return the largest `top_k` weights (of equal ones the first), from `threshold` on."""
        indices, values = self
        if threshold is not None:
            kept = np.flatnonzero(values >= np.float32(threshold))
            indices, values = indices[kept], values[kept]
        if top_k is not None and len(values) > top_k:
            kept = np.sort(np.argsort(-values, kind="stable")[:top_k])
            indices, values = indices[kept], values[kept]
        return SparseVector(indices, values)


class SparseEncoder(Engine):
    """A sparse encoder; see `Engine`.

    The `vectors` of its embeddings are objects [inputs], each a `SparseVector`.
    """

    task: ClassVar[str] = "sparse"

    @classmethod
    def _open(cls, artifact: Artifact, threads: int) -> InferenceSession:
        # A reranker's artifact, which is refused later, has no dimensions.
        width = max(artifact.manifest.dimensions, default=1)
        return BoundedSession(super()._open(artifact, threads), width=width)

    def _prepare(self, truncate: str, max_characters: int) -> type[Runs]:
        super()._prepare(truncate, max_characters)
        return SparseRuns


class BoundedSession:
    """A session that runs a part of a batch at a time, so that its logits need bounded memory."""

    def __init__(self, session: InferenceSession, *, width: int) -> None:
        self._session = session
        self._tokens = _LOGITS_BYTES // (4 * width)

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """See `InferenceSession.run`; one text is always allowed."""
        count, tokens = input_ids.shape
        size = max(1, self._tokens // tokens)
        if count <= size:
            return self._session.run(input_ids, attention_mask)
        parts = [slice(start, start + size) for start in range(0, count, size)]
        return np.concatenate(
            [self._session.run(input_ids[part], attention_mask[part]) for part in parts]
        )


class SparseRuns(Runs):
    """Runs of which only the weights that are not 0 are kept, a bounded block of inputs at a time.

    Inputs of similar length share a block, and so its runs.
    """

    #: A row would take as much as 80 vectors of 384 dimensions.
    keeps_rows = False

    def compute(self, distinct: list[bytes], deadline: float | None, allowed: float) -> Embeddings:
        """See `Runs.compute`; the rows are objects [inputs], each a `SparseVector`."""
        order = sorted(range(len(distinct)), key=lambda place: len(distinct[place]))
        size = max(1, _ROWS_BYTES // (4 * self._width))
        found = np.empty(len(distinct), object)
        parts = []
        for start in range(0, len(order), size):
            places = order[start : start + size]
            try:
                part = super().compute([distinct[p] for p in places], deadline, allowed)
            except InferenceError as error:
                if error.place is not None:
                    error.place = places[error.place]
                raise
            parts.append(part)
            for place, row in zip(places, part.vectors, strict=True):
                indices = np.flatnonzero(row)
                found[place] = SparseVector(indices.astype(np.uint32), row[indices])
        return Embeddings(
            vectors=found,
            timings=Timings(queue=sum(part.timings.queue for part in parts)),
            runs=[count for part in parts for count in part.runs],
            padding_tokens=sum(part.padding_tokens for part in parts),
            computed_tokens=sum(part.computed_tokens for part in parts),
        )
