"""The encoder that normalizes before each attention and feed-forward block, by root mean squares.

A family adds its attention, in `_start` and `_attended`; the rest is here.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from model_compiler.graph.bases.encoder import Architecture, Encoder, activate
from model_compiler.graph.quantization import Floats, Rows, dequantize, embedding, matmul
from model_compiler.graph.residual_stream import ResidualStream


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

    def build(self) -> str:
        """Add the encoder; see `Architecture.build`."""
        config, op, names = self._config, self._builder.op, self._config.names
        self._begin("input_ids")
        self._start()
        self._stream = ResidualStream(
            builder=self._builder,
            width=config.width,
            epsilon=config.norm_epsilon,
            subtracts_mean=False,
            rotated=self._builder.int8,
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
        first, *second = (f"{layer}{name}.weight" for name in names.up)
        gate = self._read_by(rows, gain, first, wide)
        # Without their scale, which the following operations keep and `dequantize` applies below.
        others = [self._reader(rows, gain, name, wide) for name in second]
        widened = activate(self._builder, gate, config.activation)
        for other in others:
            widened = self._builder.op.Mul(widened, other)
        wide_rows = self._quantized(widened, wide)
        down = self._writer(wide_rows, f"{layer}{names.down}.weight", wide)
        return dequantize(self._builder, down, wide_rows, *([rows] if others else []))

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
