"""The encoder that BERT introduced: a normalization after each attention and feed-forward block.

A family adds its embeddings and its attention, in `_start` and `_attended`; the rest is here. With
rotary positions, as in Nomic BERT and GTE, these are here too.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.attention import FullAttention
from model_compiler.graph.bases.encoder import (
    GELU,
    ROTARY_BUFFERS,
    Architecture,
    Encoder,
    activate,
    quick_activation,
    rotary_tables,
)
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import (
    Channels,
    Floats,
    centered,
    embedding,
    large_channels,
    strong_inputs,
    strong_last,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderNames:
    """The names of a family's weights."""

    #: The prefixes of the encoder in a checkpoint with a head, such as `bert.`.
    models: tuple[str, ...]
    #: Tensors of heads for language modeling in such a checkpoint, with `*` for parts of names.
    heads: str
    #: The prefix of a layer, such as `encoder.layer.{}.`; the names up to `second_norm` follow it.
    layer: str
    #: The linear layers: queries, keys and values, or all as one matrix.
    projections: tuple[str, ...]
    out: str
    attention_norm: str
    #: Those to the wide side: one, or two with a gate, which may be one matrix.
    up: tuple[str, ...]
    #: Which half of `up` is the gate, 0 or 1; None without a gate.
    gate: int | None = None
    down: str
    output_norm: str
    #: A normalization after that of the attention, of its result and the layer's input once more;
    #: empty for a family without.
    second_norm: str = ""
    embedding_norm: str = "embeddings.LayerNorm"
    #: The linear layer from the embeddings' width to that of the layers; empty if both are equal.
    widening: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNormConfig(Architecture):
    """The configuration of an encoder of this kind."""

    #: The spellings of the weights' names. The first holds if the weights have no other's.
    names: tuple[EncoderNames, ...]
    #: The width of the embeddings.
    embedding_size: int
    layers: int
    heads: int
    #: Number of token types; 0 for a family without.
    token_types: int = 0
    #: Whether the linear layers have biases.
    biases: bool = True
    #: Whether the last layer continues with the first token alone, after its attention to all.
    first_only: bool = False
    #: Number of groups of layers with the same weights; 0 if each layer has its own.
    groups: int = 0


#: Fields of `PostNormConfig` by the keys that families share.
NUMBERS = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "token_types",
}


def read_numbers(
    config: ConfigFile,
    *others: str,
    keys: Mapping[str, str] | None = None,
    epsilon: str = "layer_norm_eps",
) -> dict[str, Any]:
    """Return the sizes and the epsilon by their fields in `PostNormConfig`.

    Fields in `others` are left out: they are read in another way. `keys` has a file's own names of
    the keys in `NUMBERS`, and `epsilon` is the key of the epsilon.
    """
    own = keys or {}
    numbers: dict[str, Any] = {
        field: config.integer(own.get(key, key))
        for key, field in NUMBERS.items()
        if field not in others
    }
    return {
        "embedding_size": numbers["hidden_size"],
        "norm_epsilon": config.number(epsilon),
        **numbers,
    }


Config = TypeVar("Config", bound=PostNormConfig)


class Normalized(NamedTuple):
    """Rows after a normalization, float32 [batch, tokens, hidden_size], before gain and shift.

    Both are part of the weights of the layers that follow. Without them, the rows are complete.
    """

    value: str
    #: Name of the normalization.
    norm: str = ""
    #: Float32 [hidden_size], as the shift.
    gain: Floats | None = None
    shift: Floats | None = None


#: A number below all that `GELU` returns.
LOWEST_GELU = -0.17005


def _shifted(bias: Floats, weight: Floats, shift: Floats) -> Floats:
    """Return the bias of a layer whose input has a shift that is left out."""
    return (bias + weight.astype(np.float64) @ shift.astype(np.float64)).astype(np.float32)


class PostNormEncoder(Encoder[Config]):
    """Builds the graph of one encoder.

    In int8, the channels of the residual stream are in another order: those that `linear`
    multiplies in float32 are the last, so that no layer gathers them.
    """

    first_weight = "embeddings.word_embeddings.weight"
    harmless: ClassVar[Mapping[str, str]] = {
        "the numbers from 0, of older versions of transformers": "embeddings.position_ids",
        "BERT's own pooling, which no module reads": "pooler.*",
    }

    def __init__(self, config: Config, builder: GraphBuilder, weights: Weights) -> None:
        super().__init__(config, builder, weights)
        spelling, *spellings = config.names
        norms = (
            (names, f"{self._prefix}{names.layer.format(0)}{names.output_norm}.weight")
            for names in spellings
        )
        self._names = next((names for names, norm in norms if norm in weights), spelling)
        self._gains = {name: self._take_gain(name) for name in self._norms()}
        # The residual stream begins after the layer that widens the embeddings.
        before = {self._names.embedding_norm} if self._names.widening else set()
        gains = (gain for name, gain in self._gains.items() if name not in before)
        strong = large_channels(gains, self._outputs())
        self._outliers = len(strong)
        #: The order of the residual stream's channels.
        self._order = (
            strong_last(strong, config.hidden_size)
            if builder.int8
            else np.arange(config.hidden_size)
        )

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Those of a checkpoint with a head are the family's own."""
        return ("", *self._config.names[0].models)

    @property
    def heads(self) -> str:
        """Those that the family's names have."""
        return self._names.heads

    @abstractmethod
    def _start(self) -> Normalized:
        """Add the embeddings, and what `_attended` needs; return the rows for the first layer."""

    @abstractmethod
    def _attended(self, projected: str, layer: str, biases: tuple[Floats, Floats] | None) -> str:
        """Attend from float32 [batch, tokens, 3 * hidden_size] to [batch, tokens, hidden_size].

        Queries, keys and values are side by side. The biases are those of queries and keys, float32
        [hidden_size], which are not added yet; `layer` is the prefix of the layer's weights.
        """

    @property
    def _folds(self) -> bool:
        """Whether gains and shifts become part of weights.

        All layers that follow have a bias then, and weights of their own: layers that share theirs
        follow different normalizations.
        """
        config = self._config
        return config.biases and self._names.gate is None and not config.groups

    def _hidden_state(self) -> str:
        self._begin("input_ids")
        #: The number of tokens, int64 [1].
        self._tokens = self._builder.op.Gather(self._builder.op.Shape("input_ids"), self._int64(1))
        #: Gains and shifts of InstanceNormalization, which change nothing: float32 [tokens].
        self._neutral = tuple(
            self._builder.op.Expand(self._builder.constant(number, np.float32), self._tokens)
            for number in (1, 0)
        )
        hidden = self._start()
        if self._names.widening:
            hidden = self._wider(hidden)
        last_layer = self._config.layers - 1
        for layer in range(self._config.layers):
            only = layer == last_layer and self._config.first_only
            hidden = self._layer(self._layer_prefix(layer), hidden, first_only=only)
            self._builder.end_layer(hidden.value)
        self._last = hidden
        return hidden.value

    def finish(self, value: str) -> str:
        """Apply the last gain and shift, and put the channels in their own order."""
        value = self._complete(self._last._replace(value=value))
        if not self._builder.int8:
            return value
        natural = self._builder.constant(np.argsort(self._order), np.int64)
        return self._builder.op.Gather(value, natural, axis=-1)

    def _words_and_types(self) -> Normalized:
        """Add the embeddings of a family without a table of positions."""
        config, name, size = self._config, "embeddings.", self._config.hidden_size
        words = self._take(f"{name}word_embeddings.weight", config.vocabulary_size, size)
        if config.token_types:
            # Every token of a single text has type 0.
            types = self._take(f"{name}token_type_embeddings.weight", config.token_types, size)
            words = words + types[0]
        return self._normalize(self._embedded(words), self._names.embedding_norm)

    def _embedded(self, table: Floats) -> str:
        """Look up the words, float32 [batch, tokens, embedding_size]."""
        order = self._order_of(self._names.embedding_norm)
        return embedding(self._builder, "input_ids", table, name="words", order=order)

    def _wider(self, hidden: Normalized) -> Normalized:
        """Take the embeddings to the width of the layers."""
        name, size = self._names.widening, self._config.hidden_size
        weight = self._take(f"{name}.weight", size, self._config.embedding_size)
        bias = self._take(f"{name}.bias", size)
        folded, added = self._folded(hidden, weight[self._order], bias[self._order])
        value = self._linear_with_outliers(hidden.value, folded, name)
        if added is not None:
            value = self._builder.op.Add(value, self._builder.weight(f"{name}.bias", added))
        return Normalized(value)

    def _layer_prefix(self, layer: int) -> str:
        """Return the prefix of a layer's weights, which a group of layers may share."""
        groups = self._config.groups
        return self._names.layer.format(
            int(layer / (self._config.layers / groups)) if groups else layer
        )

    def _layer(self, layer: str, hidden: Normalized, *, first_only: bool) -> Normalized:
        names, size = self._names, self._config.hidden_size
        weight, bias = self._joined(layer, names.projections, 3 * size)
        weight, bias = self._folded(hidden, weight[:, self._order], bias, outliers=self._outliers)
        projected = self._linear_with_outliers(
            hidden.value, weight, f"{layer}attention", self._outliers
        )
        biases = None if bias is None else (bias[:size], bias[size : 2 * size])
        attended = self._attended(projected, layer, biases)
        if first_only:
            attended = self._first(attended)
            hidden = hidden._replace(value=self._first(hidden.value))
            # Those of all tokens.
            self._zeros = None
            self._neutral = tuple(self._builder.constant([n], np.float32) for n in (1, 0))
        weight, out_bias = self._joined(layer, (names.out,), size)
        if bias is not None and out_bias is not None:
            # Each token's shares of the values have the sum 1.
            out_bias = _shifted(out_bias, weight, bias[2 * size :])
        norm = f"{layer}{names.attention_norm}"
        attended = self._linear_with_outliers(
            attended, weight[self._order], f"{layer}out", added=self._around(hidden, norm, out_bias)
        )
        before, hidden = hidden, self._normalize(attended, norm)
        if names.second_norm:
            norm = f"{layer}{names.second_norm}"
            twice = self._builder.op.Sum(self._complete(hidden), *self._around(before, norm))
            hidden = self._normalize(twice, norm)
        return self._normalize(self._feed_forward(hidden, layer), f"{layer}{names.output_norm}")

    def _feed_forward(self, hidden: Normalized, layer: str) -> str:
        """Add the feed-forward layer, and return the sum of its result and its input."""
        names, size, wide = self._names, self._config.hidden_size, self._config.intermediate_size
        gated = names.gate is not None
        up, up_bias = self._joined(layer, names.up, wide * (1 + gated), biases=not gated)
        down, bias = self._joined(layer, (names.down,), size, inputs=wide)
        strong = strong_inputs(down)
        order = strong_last(strong, wide) if self._builder.int8 else np.arange(wide)
        rows = np.concatenate([order, order + wide]) if gated else order
        up_bias = None if up_bias is None else up_bias[rows]
        up, up_bias = self._folded(
            hidden, up[rows][:, self._order], up_bias, outliers=self._outliers
        )
        widened = self._linear_with_outliers(hidden.value, up, f"{layer}up", self._outliers)
        widened = self._activated(widened, layer, up_bias)
        is_gelu = not gated and self._config.activation in GELU
        return self._linear_with_outliers(
            widened,
            down[self._order][:, order],
            f"{layer}down",
            len(strong),
            lowest=LOWEST_GELU if is_gelu else None,
            added=self._around(hidden, f"{layer}{names.output_norm}", bias),
        )

    def _first(self, value: str) -> str:
        """Take float32 [batch, tokens, width] to [batch, 1, width]."""
        return self._builder.op.Slice(value, self._int64(0), self._int64(1), self._int64(1))

    def _activated(self, widened: str, layer: str, bias: Floats | None) -> str:
        """Apply the activation, or the gate, to the wide side."""
        names, builder, activation = self._names, self._builder, self._config.activation
        if names.gate is not None:
            both = builder.split(widened, [self._config.intermediate_size] * 2)
            gate, up = both[names.gate], both[1 - names.gate]
            return builder.op.Mul(activate(builder, gate, activation), up)
        name = f"{layer}{names.up[0]}.bias"
        added = "" if bias is None else builder.weight(name, bias)
        return activate(builder, widened, quick_activation(builder, activation), bias=added)

    def _folded(
        self, hidden: Normalized, weight: Floats, bias: Floats | None, *, outliers: int = 0
    ) -> tuple[Floats, Floats | None]:
        """Return a weight [out, in] and its bias for rows without their gain and shift.

        The last inputs are `outliers`; see `linear`.
        """
        if hidden.gain is None or hidden.shift is None:
            return weight, bias
        zero = np.zeros(len(weight), np.float32) if bias is None else bias
        bias = _shifted(zero, weight, hidden.shift)
        weight = weight * hidden.gain
        # The components of a normalized row have the sum 0.
        return (centered(weight, outliers) if self._builder.quantizes else weight), bias

    def _with_biases(
        self, tensors: Sequence[str], layer: str, biases: Sequence[Floats] | None
    ) -> list[str]:
        """Add biases to the first tensors, one to each."""
        added = [
            self._builder.op.Add(tensor, self._builder.weight(f"{layer}bias.{number}", bias))
            for number, (tensor, bias) in enumerate(zip(tensors, biases or (), strict=False))
        ]
        return [*added, *tensors[len(added) :]]

    def _complete(self, hidden: Normalized) -> str:
        """Apply the gain and the shift."""
        if hidden.gain is None or hidden.shift is None:
            return hidden.value
        op, weight = self._builder.op, self._builder.weight
        scaled = op.Mul(hidden.value, weight(f"{hidden.norm}.weight", hidden.gain))
        return op.Add(scaled, weight(f"{hidden.norm}.bias", hidden.shift))

    def _joined(
        self,
        layer: str,
        parts: tuple[str, ...],
        height: int,
        *,
        inputs: int | None = None,
        biases: bool | None = None,
    ) -> tuple[Floats, Floats | None]:
        """Return the weights [height, inputs] of linear layers with the same input as one layer's.

        The inputs are by default the hidden state's. The bias, [height], is None for a family
        without, or without `biases`.
        """
        rows, columns = height // len(parts), inputs or self._config.hidden_size
        weight = np.concatenate(
            [self._take(f"{layer}{name}.weight", rows, columns) for name in parts]
        )
        if not (self._config.biases if biases is None else biases):
            return weight, None
        return weight, np.concatenate([self._take(f"{layer}{name}.bias", rows) for name in parts])

    def _around(self, skip: Normalized, name: str, bias: Floats | None = None) -> list[str]:
        """Return what is added to a layer's product: what goes around the layer, and its bias.

        The normalization of this name follows. It is not a part of SkipLayerNormalization, ONNX
        Runtime's operator for both: its kernel adds up a row one component at a time. For 256 rows
        of 384 it takes 422 µs and two nodes 56, and its error is two to ten times as large.
        """
        value, shift = skip.value, None if bias is None else bias[self._order]
        if skip.gain is not None and skip.shift is not None:
            gain = self._builder.weight(f"{skip.norm}.weight", skip.gain)
            value = self._builder.op.Mul(value, gain)
            shift = skip.shift if shift is None else skip.shift + shift
        return [value] if shift is None else [value, self._builder.weight(f"{name}.shift", shift)]

    def _normalize(self, value: str, name: str) -> Normalized:
        """Add the normalization of this name."""
        gain = self._gains[name] if name in self._gains else self._take_gain(name)
        shift = self._take(f"{name}.bias", self._width(name))
        order = self._order_of(name)
        if order is not None:
            gain, shift = gain[order], shift[order]
        epsilon = self._config.norm_epsilon
        if self._folds:
            # A kernel that takes a third of LayerNormalization's instructions.
            value = self._builder.op.InstanceNormalization(value, *self._neutral, epsilon=epsilon)
            return Normalized(value, name, gain, shift)
        return Normalized(self._layer_norm(value, name, gain, shift))

    def _layer_norm(self, value: str, name: str, gain: Floats, shift: Floats) -> str:
        return self._builder.op.LayerNormalization(
            value,
            self._builder.weight(f"{name}.weight", gain),
            self._builder.weight(f"{name}.bias", shift),
            axis=-1,
            epsilon=self._config.norm_epsilon,
        )

    def _order_of(self, norm: str) -> Channels | None:
        """Return the order of the channels that a normalization has; None for their own."""
        before = self._names.widening and norm == self._names.embedding_norm
        return self._order if self._builder.int8 and not before else None

    def _outputs(self) -> Iterator[Floats]:
        """Yield the weights [hidden_size, in] of the layers that add to the residual stream."""
        names, config = self._names, self._config
        sizes = {names.out: config.hidden_size, names.down: config.intermediate_size}
        for layer in range(config.layers):
            for name, inputs in sizes.items():
                weight = f"{self._prefix}{self._layer_prefix(layer)}{name}.weight"
                # A layer of experts has other names.
                if weight in self._weights:
                    yield self._weights.look_at(weight, config.hidden_size, inputs)

    def _norms(self) -> Iterator[str]:
        yield self._names.embedding_norm
        # A generator: if `layers` is far too large, the first layer without weights ends the loop.
        for layer in range(self._config.layers):
            names = (self._names.attention_norm, self._names.second_norm, self._names.output_norm)
            for norm in filter(None, names):
                yield f"{self._layer_prefix(layer)}{norm}"

    def _take_gain(self, name: str) -> Floats:
        return self._take(f"{name}.weight", self._width(name))

    def _width(self, norm: str) -> int:
        is_embedding = norm == self._names.embedding_norm
        return self._config.embedding_size if is_embedding else self._config.hidden_size


#: The names with rotary positions, in transformers' classes; a family adds its prefixes and heads.
ROTARY_NAMES = EncoderNames(
    models=(),
    heads="",
    layer="layers.{}.",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    out="self_attn.o_proj",
    attention_norm="post_attention_layernorm",
    up=("mlp.gate_proj", "mlp.up_proj"),
    gate=0,
    down="mlp.down_proj",
    output_norm="post_mlp_layernorm",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryConfig(PostNormConfig):
    """The configuration of an encoder with rotary positions."""

    rope_base: float
    #: Factor by which all wavelengths of the rotary embedding are longer.
    rope_stretch: float = 1.0


Rotary = TypeVar("Rotary", bound=RotaryConfig)


class RotaryEncoder(PostNormEncoder[Rotary]):
    """Builds the graph of an encoder with rotary positions."""

    harmless: ClassVar[Mapping[str, str]] = {**PostNormEncoder.harmless, **ROTARY_BUFFERS}

    def _start(self) -> Normalized:
        config = self._config
        self._head_size = config.hidden_size // config.heads
        self._attend = FullAttention.with_mask(
            self._builder, heads=config.heads, head_size=self._head_size
        )
        self._rope = rotary_tables(
            self._builder,
            base=config.rope_base,
            stretch=config.rope_stretch,
            head_size=self._head_size,
            positions=config.max_positions,
            name="rope",
            by_row=True,
        )
        return self._words_and_types()

    def _attended(self, projected: str, layer: str, biases: tuple[Floats, Floats] | None) -> str:
        tensors = self._builder.split(projected, [self._config.hidden_size] * 3)
        query, key, value = self._with_biases(tensors, layer, biases)
        query, key = (
            self._rotated(tensor, self._rope, heads=self._config.heads, head_size=self._head_size)
            for tensor in (query, key)
        )
        return self._attend.add(query, key, value)
