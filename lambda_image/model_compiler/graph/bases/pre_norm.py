"""The encoder that normalizes before each attention and feed-forward block, by root mean squares.

A family adds its attention, in `_start` and `_attended`; the rest is here.

Its residual stream, which ModernBERT has too, is in a basis that int8 can round. In trained
transformers, some channels of the stream are much larger than the others, in all tokens or in the
first ones (Sun et al., 2024, https://arxiv.org/abs/2402.17762), and an int8 row with one scale
rounds the others to zero. A Hadamard matrix with random signs spreads them over all channels
(Ashkboos et al., 2024, https://arxiv.org/abs/2404.00456). It costs nothing at run time: it is
multiplied into the weights that write to the stream and read from it, and a root mean square does
not depend on it. For this, the gains of the normalizations are multiplied into the weights that
read. Where a normalization also subtracts the mean, the weights that write subtract it instead.

The matrix is applied as sums and differences in a fixed order, so that every machine gets the same
bytes.
"""

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from model_compiler.graph.bases.encoder import Architecture, Encoder, activate
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Floats, Rows, dequantize, embedding, matmul

#: Rows that are spread at a time: they fit the cache.
CHUNK = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualStream:
    """Adds the normalizations of one encoder, and takes its weights to the basis of the stream.

    The normalizations subtract the mean (LayerNormalization) or not (RMSNorm).
    """

    builder: GraphBuilder
    width: int
    epsilon: float
    subtracts_mean: bool
    #: Whether the basis spreads large channels over the others; else it is the model's own.
    spreads: bool

    @property
    def _block(self) -> int:
        """The largest power of two that divides the width."""
        return self.width & -self.width

    def table(self, table: Floats) -> Floats:
        """Return an embedding table [vocabulary, width] in the basis of the stream."""
        return spread(table, self._block) if self.spreads else table

    def start(self, value: str) -> str:
        """Return looked-up rows of the table as the normalizations need them."""
        if not self.spreads or not self.subtracts_mean:
            return value
        op = self.builder.op
        ones = spread(np.ones((1, self.width), np.float32), self._block)
        mean = op.MatMul(value, self.builder.weight("mean", ones.T / np.float32(self.width)))
        return op.Sub(value, op.Mul(mean, self.builder.weight("ones", ones[0])))

    def writer(self, weight: Floats) -> Floats:
        """Return a weight [width, in] or bias [width] of a product that is added to the stream."""
        if not self.spreads:
            return weight
        if self.subtracts_mean:
            weight = weight - weight.mean(axis=0, keepdims=True)
        return np.ascontiguousarray(spread(np.ascontiguousarray(weight.T), self._block).T)

    def reader(self, weight: Floats, gain: Floats | None) -> Floats:
        """Return a weight [out, width] that reads `normalized` with the same gain, or the table."""
        if not self.spreads:
            return weight
        return spread(weight if gain is None else weight * gain, self._block)

    def normalized(
        self, value: str, gain: Floats, *, name: str, shift: Floats | None = None
    ) -> str:
        """Normalize rows of the stream for the weights that read them.

        Gain and shift are [width]; a stream that spreads has no shift.
        """
        op = self.builder.op
        if self.spreads:
            ones = self.builder.constant(np.ones(self.width), np.float32)
            return self.builder.root_mean_square_norm(value, ones, epsilon=self.epsilon)
        weight = self.builder.weight(name, gain)
        if not self.subtracts_mean:
            return self.builder.root_mean_square_norm(value, weight, epsilon=self.epsilon)
        shifts = [] if shift is None else [self.builder.weight(f"{name}.shift", shift)]
        return op.LayerNormalization(
            value, weight, *shifts, axis=-1, epsilon=self.epsilon, stash_type=1
        )

    def output(self, value: str, gain: Floats, *, name: str, shift: Floats | None = None) -> str:
        """Normalize rows of the stream, in the model's own basis; see `normalized`."""
        hidden = self.normalized(value, gain, name=name, shift=shift)
        if not self.spreads:
            return hidden
        op, builder = self.builder.op, self.builder
        back = spread(np.eye(self._block, dtype=np.float32), self._block).T
        blocks = op.Reshape(hidden, builder.int64(0, 0, -1, self._block))
        # The weight keeps this name: artifacts stay equal to the byte.
        blocks = op.MatMul(blocks, builder.weight("rotation", back))
        hidden = op.Reshape(blocks, builder.int64(0, 0, -1))
        return op.Mul(hidden, builder.weight(name, gain))


def spread(array: Floats, block: int) -> Floats:
    """Spread each component of [rows, width] over its block of a row, a power of two.

    A component of the result is a sum of all components of its block with signs, divided by the
    square root of their number. Lengths and products of rows do not change.
    """
    bits = np.frombuffer(hashlib.shake_256(b"signs").digest(-(-block // 8)), np.uint8)
    signs = 1 - 2 * np.unpackbits(bits)[:block].astype(np.float32)
    factors = np.tile(signs / np.float32(block**0.5), array.shape[1] // block)
    spread_rows = np.empty_like(array)
    for start in range(0, len(array), CHUNK):
        # Transposed, so that the inner loops are over rows, which lie side by side.
        sums = np.ascontiguousarray((array[start : start + CHUNK] * factors).T)
        spare = np.empty_like(sums)
        half = 1
        while half < block:
            pairs = sums.reshape(-1, 2, half, sums.shape[1])
            results = spare.reshape(pairs.shape)
            np.add(pairs[:, 0], pairs[:, 1], out=results[:, 0])
            np.subtract(pairs[:, 0], pairs[:, 1], out=results[:, 1])
            sums, spare = spare, sums
            half *= 2
        spread_rows[start : start + CHUNK] = sums.T
    return spread_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PreNormNames:
    """The names of a family's weights, without `.weight` at the end."""

    #: The embedding table.
    table: str
    #: The prefix of a layer, with `{}` for its number. The names up to `down` follow it.
    layer: str
    #: The normalization before the attention.
    attention_norm: str
    #: The linear layers of queries, keys and values.
    projections: tuple[str, str, str]
    out: str
    #: The normalization before the feed-forward block.
    output_norm: str
    #: The linear layers to its wide side: a gate and another, or one.
    up: tuple[str, ...]
    down: str
    #: The normalization after all layers.
    final_norm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreNormConfig(Architecture):
    """The configuration of an encoder of this kind."""

    names: PreNormNames
    #: Width of the hidden states.
    width: int
    layers: int
    #: Query heads; each group of them shares one of the key and value heads.
    heads: int
    key_value_heads: int
    head_size: int
    #: Whether the projections to queries, keys and values have biases.
    biases: bool = False


Config = TypeVar("Config", bound=PreNormConfig)


class PreNormEncoder(Encoder[Config]):
    """Builds the graph of one encoder."""

    @abstractmethod
    def _start(self) -> None:
        """Add what `_attended` needs."""

    @abstractmethod
    def _attended(self, query: str, key: str, value: str, layer: str) -> str:
        """Attend from the projections of a layer to float32 [batch, tokens, heads * head_size].

        `layer` is the prefix of the layer's weights.
        """

    def _hidden_state(self) -> str:
        config, op, names = self._config, self._builder.op, self._config.names
        self._begin("input_ids")
        self._start()
        self._stream = ResidualStream(
            builder=self._builder,
            width=config.width,
            epsilon=config.norm_epsilon,
            subtracts_mean=False,
            spreads=self._builder.int8,
        )
        table = self._take(f"{names.table}.weight", config.vocabulary_size, config.width)
        x = embedding(self._builder, "input_ids", self._stream.table(table), name="tokens")
        for number in range(config.layers):
            layer = names.layer.format(number)
            x = op.Add(x, self._attention(x, layer))
            x = self._builder.end_layer(op.Add(x, self._feed_forward(x, layer)))
        gain = self._take(f"{names.final_norm}.weight", config.width)
        return self._stream.output(x, gain, name=f"{names.final_norm}.weight")

    def _attention(self, x: str, layer: str) -> str:
        config, names = self._config, self._config.names
        rows, gain = self._read(x, f"{layer}{names.attention_norm}.weight")
        counts = (config.heads, config.key_value_heads, config.key_value_heads)
        query, key, value = (
            self._projected(rows, gain, f"{layer}{name}", count * config.head_size)
            for name, count in zip(names.projections, counts, strict=True)
        )
        width = config.heads * config.head_size
        rows = self._quantized(self._attended(query, key, value, layer), width)
        return dequantize(
            self._builder, self._writer(rows, f"{layer}{names.out}.weight", width), rows
        )

    def _projected(self, rows: Rows, gain: Floats, name: str, outputs: int) -> str:
        projected = self._read_by(rows, gain, f"{name}.weight", outputs)
        if not self._config.biases:
            return projected
        bias = self._builder.weight(f"{name}.bias", self._take(f"{name}.bias", outputs))
        return self._builder.op.Add(projected, bias)

    def _feed_forward(self, x: str, layer: str) -> str:
        config, names = self._config, self._config.names
        wide = config.intermediate_size
        rows, gain = self._read(x, f"{layer}{names.output_norm}.weight")
        gate_name, *up_names = (f"{layer}{name}.weight" for name in names.up)
        gate = self._read_by(rows, gain, gate_name, wide)
        # Without their scale, which the following operations keep and `dequantize` applies below.
        factors = [self._reader(rows, gain, name, wide) for name in up_names]
        widened = activate(self._builder, gate, config.activation)
        for factor in factors:
            widened = self._builder.op.Mul(widened, factor)
        wide_rows = self._quantized(widened, wide)
        down = self._writer(wide_rows, f"{layer}{names.down}.weight", wide)
        return dequantize(self._builder, down, wide_rows, *([rows] if factors else []))

    def _read(self, x: str, name: str) -> tuple[Rows, Floats]:
        """Return normalized rows of the stream, and the normalization's gain."""
        width = self._config.width
        gain = self._take(name, width)
        return self._quantized(self._stream.normalized(x, gain, name=name), width), gain

    def _read_by(self, rows: Rows, gain: Floats, name: str, outputs: int) -> str:
        """Multiply rows of `_read` by a weight, with their scale."""
        return dequantize(self._builder, self._reader(rows, gain, name, outputs), rows)

    def _reader(self, rows: Rows, gain: Floats, name: str, outputs: int) -> str:
        weight = self._take(name, outputs, self._config.width)
        return matmul(self._builder, rows, self._stream.reader(weight, gain), name=name)

    def _writer(self, rows: Rows, name: str, inputs: int) -> str:
        """Multiply rows by a weight; its outputs are added to the stream."""
        weight = self._take(name, self._config.width, inputs)
        return matmul(self._builder, rows, self._stream.writer(weight), name=name)
