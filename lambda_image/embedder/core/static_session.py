"""A static model: a table with a vector per token, of which a text's vector is the mean.

A sparse encoder without a model has a table with a weight per token. Numpy reads and adds up both,
without ONNX Runtime: its import and session would be most of the start. The table is mapped: the
system reads a page of it when a text first needs it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from embedder.core.artifact import Artifact
from embedder.core.errors import ArtifactError

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: The scales of an int8 table, float32 [vocabulary]: a token's vector is its row times its scale.
SCALES_FILE = "scales.npy"

#: The weights of a sparse encoder's tokens, float32 [vocabulary].
WEIGHTS_FILE = "weights.npy"

#: Tokens of a text that are added at once, so that their rows stay in the cache and a long text
#: needs no more memory than a short one. Adding 2,048 rows of 1,024 float32 takes 0.41 ms in such
#: blocks and 0.63 ms at once; in int8 both take 0.45 ms.
_BLOCK = 256
#: The smallest divisor of a vector, as in torch's `normalize`: tokens with vectors of zeros have
#: no direction, and give a vector of zeros.
_SMALLEST_LENGTH = np.float32(1e-12)


class StaticSession:
    """The table of a static model, int8 or float32 [vocabulary, dimensions].

    Raises:
        ArtifactError: if the files cannot be read, or the manifest describes another table.
    """

    def __init__(self, artifact: Artifact) -> None:
        path = artifact.graph_path
        table = _mapped(path)
        width = artifact.manifest.full_dimensions
        if table.ndim != 2 or table.shape[1] != width or table.dtype not in (np.int8, np.float32):
            raise ArtifactError(
                f"{path} is a table of {table.dtype} {list(table.shape)}; the manifest says int8 "
                f"or float32 with {width} columns."
            )
        self._table, self.graph_file = table, artifact.manifest.graph.file
        self._scales: npt.NDArray[np.float32] | None = None
        if table.dtype == np.int8:
            path = os.path.join(artifact.folder, SCALES_FILE)
            self._scales = _mapped(path)
            if self._scales.shape != table.shape[:1] or self._scales.dtype != np.float32:
                raise ArtifactError(
                    f"{path} has {self._scales.dtype} {list(self._scales.shape)}; the table has "
                    f"{len(table)} rows, each with a scale of float32."
                )

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Embed a batch; see `InferenceSession.run`.

        The vectors are brought to length 1, so the sum of the rows serves as their mean. A text
        with rows of zeros alone gets a vector of zeros.
        """
        weights = attention_mask.astype(np.float32)
        if self._scales is not None:
            weights *= self._scales.take(input_ids)
        total = self._sum(input_ids[:, :_BLOCK], weights[:, :_BLOCK])
        for start in range(_BLOCK, input_ids.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            total += self._sum(input_ids[:, block], weights[:, block])
        lengths = np.sqrt(np.square(total).sum(axis=1, keepdims=True))
        vectors: npt.NDArray[np.float32] = total / np.maximum(lengths, _SMALLEST_LENGTH)
        return vectors

    def _sum(
        self, input_ids: npt.NDArray[np.int64], weights: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Add the weighted rows of each text, up to a block of them."""
        rows = self._table.take(input_ids, axis=0).astype(np.float32, copy=False)
        # A product for each text alone, so that its sums do not depend on the others.
        total: npt.NDArray[np.float32] = np.matmul(weights[:, None], rows)[:, 0]
        return total


class WeightsSession:
    """The weights of a sparse encoder without a model; errors as of `StaticSession`."""

    def __init__(self, artifact: Artifact) -> None:
        path, width = artifact.graph_path, artifact.manifest.full_dimensions
        table = _mapped(path)
        if table.shape != (width,) or table.dtype != np.float32:
            raise ArtifactError(
                f"{path} is a table of {table.dtype} {list(table.shape)}; the manifest says "
                f"float32 {[width]}."
            )
        self._table: npt.NDArray[np.float32] = table
        self.graph_file = artifact.manifest.graph.file

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return the weights of each text's tokens, float32 [batch, vocabulary]."""
        rows = np.zeros((len(input_ids), len(self._table)), np.float32)
        for row, ids, mask in zip(rows, input_ids, attention_mask, strict=True):
            tokens = ids[: mask.sum()]
            row[tokens] = self._table[tokens]
        return rows


def _mapped(path: str) -> npt.NDArray[Any]:
    try:
        # As a plain array: indexing a `memmap` makes another one each time.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # numpy reads the header as a Python expression.
        raise ArtifactError(f"{path} cannot be read as an array: {error}.") from error
