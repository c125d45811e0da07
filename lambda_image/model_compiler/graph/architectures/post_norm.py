"""The encoder that BERT introduced: a normalization after each attention and feed-forward block.

BERT, RoBERTa, MPNet and DistilBERT differ in the names of their weights, in how tokens get their
positions, and in whether attention has a bias by distance.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from model_compiler.files.weights import Weights
from model_compiler.graph.attention import LOWEST, FullAttention
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.encoder import Encoder, add_and_normalize
from model_compiler.graph.quantization import Floats, amplified_channels, embedding, strong_inputs

__all__ = ["BUCKETS", "EXACT_GELU", "TANH_GELU", "Names", "PostNormConfig", "bucket"]

#: MPNet's `relative_position_bucket` in `transformers/models/mpnet/modeling_mpnet.py` has these
#: numbers as defaults: 16 buckets for each direction, of which the distances up to 7 have one each.
BUCKETS = 32
EACH_WAY = BUCKETS // 2
EXACT = EACH_WAY // 2


def _counted_from_0(builder: GraphBuilder, table: Floats) -> str:
    """Add the positions' vectors float32 [tokens, width] to a graph with `input_ids`."""
    tokens = builder.op.Gather(builder.op.Shape("input_ids"), builder.constant([1], np.int64))
    name, zero = builder.weight("positions", table), builder.constant([0], np.int64)
    return builder.op.Slice(name, zero, tokens, zero)


def _counted_from_padding(builder: GraphBuilder, table: Floats, padding: int) -> str:
    """Add the positions' vectors float32 [batch, tokens, width] to a graph with `input_ids`.

    The first token has the position after the padding token's id, as in transformers'
    `create_position_ids_from_input_ids`. A padding token inside a text has its own id as its
    position and is not counted.
    """
    op, padding_id = builder.op, builder.constant(padding, np.int64)
    counted = op.Cast(op.Not(op.Equal("input_ids", padding_id)), to=TensorProto.INT64)
    count = op.CumSum(counted, builder.constant(1, np.int64))
    places = op.Add(op.Mul(count, counted), padding_id)
    # By row: a table of 8,194 positions is tens of megabytes, of which a short text needs little.
    return op.Gather(builder.weight("positions", table, by_row=True), places)


def _relative_bias(builder: GraphBuilder, table: Floats, positions: int) -> str:
    """Add a bias float32 [1, heads, tokens, tokens] by distance to a graph with `input_ids`.

    See Raffel et al., 2019, https://arxiv.org/abs/1910.10683, section 2.1.

    Args:
        builder: The graph.
        table: The bias of each bucket, float32 [buckets, heads].
        positions: The token limit.
    """
    op = builder.op
    distances = range(1 - positions, positions)
    by_distance = table[[bucket(distance) for distance in distances]].T
    zero, one = (builder.constant(value, np.int64) for value in (0, 1))
    places = op.Range(zero, op.Gather(op.Shape("input_ids"), one), one)
    from_each = op.Sub(places, op.Unsqueeze(places, builder.constant([1], np.int64)))
    columns = op.Add(from_each, builder.constant(positions - 1, np.int64))
    bias = op.Gather(builder.weight("relative_bias", by_distance), columns, axis=1)
    return op.Unsqueeze(bias, builder.constant([0], np.int64))


def bucket(distance: int) -> int:
    """Return the bucket of a distance, which is the key's position minus the query's.

    From 8 on, a bucket begins at each power of the square root of 2. Squares keep this exact; the
    reference takes a logarithm in float32, with the same results.
    """
    far = abs(distance)
    shared = EXACT + (far * far // EXACT**2).bit_length() - 1
    return (EACH_WAY if distance > 0 else 0) + (far if far < EXACT else min(shared, EACH_WAY - 1))


#: Number of positions above which attention does without a matrix of all scores: with 16 heads, one
#: of 8,192 tokens has 4.3 GB.
LONG = 1024


class _Attention:
    """Adds attention to a graph with the input `attention_mask`.

    Args:
        builder: The graph.
        heads: The number of heads.
        width: The width of all heads.
        positions: The token limit.
        relative_bias: A bias float32 [1, heads, tokens, tokens] of the scores; empty for none.
    """

    def __init__(
        self, builder: GraphBuilder, *, heads: int, width: int, positions: int, relative_bias: str
    ) -> None:
        self._builder = builder
        self._heads = heads
        self._width = width
        self._relative = [relative_bias] if relative_bias else []
        self._full = None
        if positions > LONG and not relative_bias:
            self._full = FullAttention.with_mask(builder, heads=heads, head_size=width // heads)
        else:
            # 1 for a token, 0 for padding, as MultiHeadAttention takes it.
            self._mask = builder.op.Cast("attention_mask", to=TensorProto.INT32)

    def add(self, projected: str, bias: Floats, *, name: str) -> str:
        """Attend from float32 [batch, tokens, 3 * width] to [batch, tokens, width].

        Args:
            projected: Queries, keys and values beside each other, without their bias.
            bias: That bias, float32 [3 * width].
            name: The name of the bias.
        """
        builder, sizes = self._builder, [self._width] * 3
        if self._full:
            shifted = builder.op.Add(projected, builder.weight(name, bias))
            return self._full.add(*builder.split(shifted, sizes))
        parts = builder.split(projected, sizes)
        return builder.microsoft.MultiHeadAttention(
            *parts,
            builder.weight(name, bias),
            self._mask,
            *self._relative,
            num_heads=self._heads,
            mask_filter_value=LOWEST,
        )


#: The names of the two forms of GELU in transformers. The exact form uses the error function, the
#: other a hyperbolic tangent. They differ by up to 5e-4, so one cannot replace the other.
EXACT_GELU = frozenset({"gelu", "gelu_python"})
TANH_GELU = frozenset({"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a family's weights.

    Attributes:
        model: The prefix of the encoder in a checkpoint with a head, such as `bert.`.
        heads: Prefixes of heads for language modeling, which are ignored in such a checkpoint.
        layer: The prefix of all layers, such as `encoder.layer.`.
        query: The linear layers and normalizations of a layer, after its number.
    """

    model: str
    heads: tuple[str, ...]
    layer: str
    query: str
    key: str
    value: str
    out: str
    attention_norm: str
    up: str
    down: str
    output_norm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNormConfig:
    """The configuration of an encoder of this kind."""

    #: The family's `model_type`.
    name: str
    names: Names
    vocabulary_size: int
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    activation: str
    norm_epsilon: float
    #: Number of rows of the table of positions.
    position_rows: int
    #: Number of token types; 0 for a family without.
    token_types: int = 0
    #: The id from whose successor positions are counted, over tokens with other ids; None if the
    #: positions of all tokens are counted from 0.
    padding_id: int | None = None
    #: Whether attention has a bias by the distance of two tokens.
    relative: bool = False

    @property
    def max_positions(self) -> int:
        """The token limit: rows up to that of the padding token are not used."""
        return self.position_rows - (0 if self.padding_id is None else self.padding_id + 1)

    def build(self, builder: GraphBuilder, weights: Weights) -> str:
        """Add the encoder; see `architectures.Architecture.build`."""
        return _Encoder(self, builder, weights).build()


class _Encoder(Encoder[PostNormConfig]):
    """Builds the graph of one encoder."""

    first_weight = "embeddings.word_embeddings.weight"

    def __init__(self, config: PostNormConfig, builder: GraphBuilder, weights: Weights) -> None:
        super().__init__(config, builder, weights)
        self._names = config.names
        self._gains = {name: self._take_gain(name) for name in self._norms()}
        self._amplified = amplified_channels(self._gains.values())

    @property
    def prefixes(self) -> tuple[str, ...]:
        """That of a checkpoint with a head is the family's own."""
        return ("", self._config.names.model)

    def build(self) -> str:
        self._begin("input_ids")
        hidden = self._embeddings()
        self._attention = _Attention(
            self._builder,
            heads=self._config.heads,
            width=self._config.hidden_size,
            positions=self._config.max_positions,
            relative_bias=self._relative_bias() if self._config.relative else "",
        )
        for layer in range(self._config.layers):
            hidden = self._builder.end_layer(self._layer(f"{self._names.layer}{layer}.", hidden))
        head = self._names.heads if self._prefix else ()
        self._weights.ignore(
            f"{self._prefix}embeddings.position_ids", f"{self._prefix}pooler.", *head
        )
        self._weights.done()
        return hidden

    def _embeddings(self) -> str:
        config, take, name = self._config, self._take, "embeddings."
        words = embedding(
            self._builder,
            "input_ids",
            take(f"{name}word_embeddings.weight", config.vocabulary_size, config.hidden_size),
            name="words",
        )
        positions = take(
            f"{name}position_embeddings.weight", config.position_rows, config.hidden_size
        )
        if config.token_types:
            # Every token of a single text has type 0, so its vector is added to the positions.
            types = take(
                f"{name}token_type_embeddings.weight", config.token_types, config.hidden_size
            )
            positions = positions + types[0]
        if config.padding_id is None:
            there = _counted_from_0(self._builder, positions)
        else:
            there = _counted_from_padding(self._builder, positions, config.padding_id)
        return self._normalized_sum(words, there, f"{name}LayerNorm.", bias=None)

    def _relative_bias(self) -> str:
        name = "encoder.relative_attention_bias.weight"
        table = self._take(name, BUCKETS, self._config.heads)
        return _relative_bias(self._builder, table, self._config.max_positions)

    def _layer(self, layer: str, hidden: str) -> str:
        config, names = self._config, self._names
        size, wide = config.hidden_size, config.intermediate_size
        parts = [f"{layer}{part}" for part in (names.query, names.key, names.value)]
        weight = np.concatenate([self._take(f"{part}.weight", size, size) for part in parts])
        projected = self._linear_with_outliers(hidden, weight, f"{layer}attention", self._amplified)
        bias = np.concatenate([self._take(f"{part}.bias", size) for part in parts])
        attended = self._attention.add(projected, bias, name=f"{layer}attention.bias")
        weight = self._take(f"{layer}{names.out}.weight", size, size)
        attended = self._linear_with_outliers(attended, weight, f"{layer}out")
        hidden = self._normalized_sum(
            attended,
            hidden,
            f"{layer}{names.attention_norm}.",
            bias=self._take(f"{layer}{names.out}.bias", size),
        )
        weight = self._take(f"{layer}{names.up}.weight", wide, size)
        widened = self._linear_with_outliers(hidden, weight, f"{layer}up", self._amplified)
        widened = self._activated(widened, f"{layer}{names.up}.bias")
        weight = self._take(f"{layer}{names.down}.weight", size, wide)
        narrowed = self._linear_with_outliers(
            widened, weight, f"{layer}down", strong_inputs(weight)
        )
        return self._normalized_sum(
            narrowed,
            hidden,
            f"{layer}{names.output_norm}.",
            bias=self._take(f"{layer}{names.down}.bias", size),
        )

    def _activated(self, value: str, bias_name: str) -> str:
        bias = self._builder.weight(
            bias_name, self._take(bias_name, self._config.intermediate_size)
        )
        if self._config.activation in EXACT_GELU:
            return self._builder.microsoft.BiasGelu(value, bias)
        if self._config.activation in TANH_GELU:
            return self._builder.microsoft.FastGelu(value, bias)
        return self._builder.op.Relu(self._builder.op.Add(value, bias))

    def _normalized_sum(self, value: str, skip: str, name: str, *, bias: Floats | None) -> str:
        shift = "beta" if self._is_old(name) else "bias"
        if bias is not None:
            value = self._builder.op.Add(value, self._builder.weight(f"{name}dense.bias", bias))
        return add_and_normalize(
            self._builder,
            value,
            skip,
            self._builder.weight(f"{name}weight", self._gains[name]),
            self._builder.weight(
                f"{name}bias", self._take(f"{name}{shift}", self._config.hidden_size)
            ),
            epsilon=self._config.norm_epsilon,
        )

    def _norms(self) -> Iterator[str]:
        """Yield the names of all normalizations, each with a dot at its end."""
        yield "embeddings.LayerNorm."
        # A generator: if `layers` is far too large, the first layer without weights ends the loop.
        for layer in range(self._config.layers):
            for part in (self._names.attention_norm, self._names.output_norm):
                yield f"{self._names.layer}{layer}.{part}."

    def _take_gain(self, name: str) -> Floats:
        gain = "gamma" if self._is_old(name) else "weight"
        return self._take(f"{name}{gain}", self._config.hidden_size)

    def _is_old(self, name: str) -> bool:
        """Return whether a normalization has TensorFlow's names, gamma and beta."""
        return f"{self._prefix}{name}gamma" in self._weights
