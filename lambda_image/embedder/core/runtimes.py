"""The runtimes that compute vectors: ONNX Runtime, or numpy alone for a static model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from embedder.core.artifact import Artifact

if TYPE_CHECKING:  # see startup
    import numpy as np
    import numpy.typing as npt


class Batch(NamedTuple):
    """The arguments of `InferenceSession.run`."""

    input_ids: npt.NDArray[np.int64]
    attention_mask: npt.NDArray[np.int64]


class InferenceSession(Protocol):
    """The interface that the engine needs from a session."""

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return the vectors of a batch, float32 [batch, dimensions], rows of length 1.

        Both arguments are [batch, tokens], special tokens included. The mask is 1 for a token and 0
        for padding. Ids of padding are ignored but must be in the vocabulary. Each row has a token.
        """


class RunResult(NamedTuple):
    """The result of `RunBatches`."""

    #: Of each batch, in their order; see `InferenceSession.run`.
    vectors: Sequence[npt.NDArray[np.float32]]
    #: Seconds in which none of the batches ran.
    queue_seconds: float


class RunBatches(Protocol):
    """The method `run_all` of a session that many requests use at the same time.

    It gets all batches of a request at once, decides their order among those of other requests, and
    may run those of several requests together. No batch is started after the deadline, a
    `time.monotonic()`.
    """

    def __call__(self, batches: Iterable[Batch], *, deadline: float | None = None) -> RunResult:
        """Embed the batches of one request; an `AnswerableError` says why they were not run."""


def load_session(artifact: Artifact, *, threads: int = 1) -> InferenceSession:
    """Load an artifact's graph into its runtime; `threads` is for one run of ONNX Runtime."""
    # Imported here: ONNX Runtime is most of a start, and a static model does not need it.
    if artifact.manifest.graph.runtime == "numpy":
        from embedder.core.static_session import StaticSession, WeightsSession  # noqa: PLC0415

        sparse = artifact.manifest.task == "sparse"
        return WeightsSession(artifact) if sparse else StaticSession(artifact)
    from embedder.core.session import Session  # noqa: PLC0415

    return Session(artifact, threads=threads)
