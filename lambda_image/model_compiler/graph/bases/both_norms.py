"""The encoder that normalizes before each block and again what the block adds to the stream.

Both divide rows by their root mean square, as in the two EmbeddingGemmas. So the second one also
divides by the scales of int8 rows, which the product before it leaves out: only epsilon, which is
far below the mean square, counts less then. The same holds for queries and keys with a
normalization of their own.

A row of zeros has no scale that could be left out. The embedding of a token may be one, such as
that of padding, so its first products keep theirs.

The normalized rows are quantized after their gain. Before it, they would need an operator less,
but a strong channel that the gain suppresses would round the others to zero: with channels ten
times as strong, the distance of the vectors from full precision is twice as large.
"""

from abc import abstractmethod
from typing import TypeVar

import numpy as np

from model_compiler.graph.bases.encoder import Architecture, Encoder, activate
from model_compiler.graph.quantization import Floats, Rows, dequantize, matmul

Config = TypeVar("Config", bound=Architecture)


class BothNormsEncoder(Encoder[Config]):
    """Builds the graph of one encoder."""

    @property
    @abstractmethod
    def _width(self) -> int:
        """Width of the residual stream."""

    def _read(self, x: str, name: str) -> Rows:
        """Normalize the stream, float32 [batch, tokens, width], for the weights of a block."""
        return self._quantized(self._normalized(x, name), self._width)

    def _unscaled(
        self, rows: Rows, name: str, outputs: int, inputs: int | None = None, *, label: str = ""
    ) -> str:
        """Multiply rows, by default of the stream's width, by a weight, without their scale.

        In the graph, the weight has the name `label`, by default its own.
        """
        weight = self._take(name, outputs, inputs or self._width)
        return matmul(self._builder, rows, weight, name=label or name)

    def _scaled(self, rows: Rows, name: str, outputs: int, inputs: int | None = None) -> str:
        """Multiply rows by a weight, with their scale; see `_unscaled`."""
        return dequantize(self._builder, self._unscaled(rows, name, outputs, inputs), rows)

    def _attention_output(self, mixed: str, name: str, inputs: int) -> str:
        """Take float32 [batch, tokens, inputs] to the stream's width, without a scale."""
        return self._unscaled(self._quantized(mixed, inputs), name, self._width, inputs)

    def _feed_forward(self, rows: Rows, name: str, *, end: str = "_proj.weight") -> str:
        """Add a gated feed-forward block; the result is without scales.

        The weights of its last two products have names with this end in the graph.
        """
        wide = self._config.intermediate_size
        gate = self._scaled(rows, f"{name}gate_proj.weight", wide)
        up = self._unscaled(rows, f"{name}up_proj.weight", wide, label=f"{name}up{end}")
        gated = self._builder.op.Mul(activate(self._builder, gate, self._config.activation), up)
        return self._unscaled(
            self._quantized(gated, wide),
            f"{name}down_proj.weight",
            self._width,
            wide,
            label=f"{name}down{end}",
        )

    def _gain(self, name: str, size: int) -> Floats:
        """Take the gain of a normalization."""
        return self._take(name, size)

    def _normalized(
        self, value: str, name: str, size: int | None = None, *, factor: float = 1.0
    ) -> str:
        """Divide rows, by default of the stream's width, by their root mean square."""
        gain = self._gain(name, size or self._width) * np.float32(factor)
        return self._by_root_mean_square(value, self._builder.weight(name, gain))
