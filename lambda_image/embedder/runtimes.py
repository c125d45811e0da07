"""The runtimes that compute vectors: ONNX Runtime, or numpy alone for a static model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from embedder.artifact import Artifact

if TYPE_CHECKING:  # see startup
    import numpy as np
    import numpy.typing as npt

__all__ = ["Runs", "load_session"]


class Runs(Protocol):
    """The interface that the engine needs from a session."""

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Embed a batch.

        Args:
            input_ids: [batch, tokens], special tokens included; ids under a 0 of the mask are
                ignored but must be in the vocabulary.
            attention_mask: [batch, tokens], 1 for a token, 0 for padding; no row of zeros.

        Returns:
            float32 [batch, dimensions], rows of length 1.
        """


def load_session(artifact: Artifact, *, threads: int = 1) -> Runs:
    """Load an artifact's graph into its runtime; `threads` is for one run of ONNX Runtime.

    Raises:
        ArtifactError: if the graph cannot be loaded.
    """
    # Imported here: ONNX Runtime is most of a start, and a static model does not need it.
    if artifact.manifest.graph.runtime == "numpy":
        from embedder.static_session import StaticSession  # noqa: PLC0415

        return StaticSession(artifact)
    from embedder.session import Session  # noqa: PLC0415

    return Session(artifact, threads=threads)
