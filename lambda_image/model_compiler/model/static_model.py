"""A static model: a table with a vector per token, which the embedder adds up without a graph."""

from dataclasses import dataclass, replace
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from embedder.core.static_session import SCALES_FILE
from model_compiler.errors import SourceError
from model_compiler.files.weights import Weights
from model_compiler.graph.quantization import Precision, quantize_rows
from model_compiler.model.base import INPUTS, OUTPUT, Graph, Model

__all__ = ["TABLE_FILE", "StaticModel", "table_shape"]

TABLE_FILE = "embeddings.npy"

#: The table's names in sentence-transformers and in model2vec.
NAMES = ("embedding.weight", "embeddings")
#: model2vec's row of each token, and the factor of each token.
MAPPING, FACTORS = "mapping", "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticModel(Model):
    """A model whose vectors are the means of the vectors of a text's tokens."""

    #: Holds `model.safetensors`.
    weights_folder: Path
    #: The token that adds nothing to a vector; None if all do.
    left_out: int | None
    precision: Precision

    @property
    def reference(self) -> "StaticModel":
        """The same model in fp32."""
        if self.precision is Precision.FP32:
            return self
        return replace(self, precision=Precision.FP32)

    @property
    def label(self) -> str:
        """The model in an error message."""
        return f"the model compiled to {self.precision}"

    @property
    def remedy(self) -> str:
        """A sentence for a user whose model missed a threshold."""
        other = "" if self.precision is Precision.FP32 else "use --precision fp32, or "
        return f"{other}add --unmeasured to accept these vectors.".capitalize()

    def check(self) -> None:
        """Read the table; see `Model.check`."""
        self._table(Weights(self.weights_folder))

    def write(self, folder: Path, *, progress: bool = False) -> Graph:
        """Write `embeddings.npy`, and in int8 also `scales.npy`; see `Model.write`."""
        with tqdm(desc=self.precision, unit="B", unit_scale=True, disable=not progress) as bar:
            weights = Weights(self.weights_folder, progress=bar.update)
            bar.reset(weights.total_bytes)
            files = self._files(self._table(weights))
        digest = sha256()
        for name, array in files.items():
            np.save(folder / name, array, allow_pickle=False)
            digest.update(repr((name, array.dtype.str, array.shape)).encode())
            digest.update(array.data)
        return Graph(
            runtime="numpy",
            file=TABLE_FILE,
            digest=digest.digest(),
            source_digest=weights.digest,
            precision=self.precision,
            inputs=INPUTS,
            output=OUTPUT,
            optimization="none",
            multiply_adds=self.dimensions,
        )

    def _table(self, weights: Weights) -> npt.NDArray[np.float32]:
        table = _table(weights, self.vocabulary_size, self.dimensions)
        weights.done()
        return table

    def _files(self, table: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of the artifact by the names of their files."""
        if self.left_out is not None:
            table[self.left_out] = 0
        if self.precision is Precision.FP32:
            return {TABLE_FILE: table}
        rows, scales = quantize_rows(table)
        return {TABLE_FILE: rows, SCALES_FILE: scales}


def table_shape(weights: Weights) -> tuple[int, int]:
    """Return the number of tokens and of dimensions.

    Raises:
        SourceError: If there is no table.
    """
    name = _name(weights)
    shape = weights.shape(name)
    if len(shape) != 2:
        raise SourceError(
            f"{weights.folder}: {name} has the shape {list(shape)}; it must be a table with a row "
            "for each token."
        )
    return (prod(weights.shape(MAPPING)) if MAPPING in weights else shape[0]), shape[1]


def _table(weights: Weights, tokens: int, dimensions: int) -> npt.NDArray[np.float32]:
    """Return the vector of each token, float32 [tokens, dimensions]."""
    name = _name(weights)
    table = weights.take(name, weights.shape(name)[0], dimensions)
    if MAPPING in weights:
        rows = weights.take_integers(MAPPING, tokens)
        if not ((rows >= 0) & (rows < len(table))).all():
            raise SourceError(
                f"{weights.folder}: {MAPPING} has the rows {rows.min()} to {rows.max()}; "
                f"{name} has {len(table)}."
            )
        table = table[rows]
    if FACTORS in weights:
        table = table * weights.take(FACTORS, tokens)[:, None]
    return table


def _name(weights: Weights) -> str:
    return next((name for name in NAMES if name in weights), NAMES[0])
