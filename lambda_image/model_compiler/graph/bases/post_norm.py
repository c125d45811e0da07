"""The encoder that BERT introduced: a normalization after each attention and feed-forward block.

A family adds its embeddings and its attention, in `_start` and `_attended`; the rest is here. With
rotary positions, as in Nomic BERT and GTE, these are here too.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.attention import FullAttention
from model_compiler.graph.bases.encoder import (
    ROTARY_BUFFERS,
    Architecture,
    Encoder,
    activate,
    rotary_tables,
)
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Floats, amplified_channels, embedding, strong_inputs


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


class PostNormEncoder(Encoder[Config]):
    """Builds the graph of one encoder."""

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
        self._amplified = amplified_channels(
            gain for name, gain in self._gains.items() if name not in before
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
    def _start(self) -> str:
        """Add the embeddings, and what `_attended` needs.

        Returns the hidden state before the first layer, float32 [batch, tokens, hidden_size].
        """

    @abstractmethod
    def _attended(self, projected: str, layer: str) -> str:
        """Attend from float32 [batch, tokens, 3 * hidden_size] to [batch, tokens, hidden_size].

        Queries, keys and values are side by side, without their bias; `layer` is the prefix of the
        layer's weights.
        """

    def _hidden_state(self) -> str:
        self._begin("input_ids")
        hidden = self._start()
        if widening := self._names.widening:
            weight = self._take(
                f"{widening}.weight", self._config.hidden_size, self._config.embedding_size
            )
            hidden = self._linear_with_outliers(hidden, weight, widening)
            bias = self._take(f"{widening}.bias", self._config.hidden_size)
            hidden = self._builder.op.Add(hidden, self._builder.weight(f"{widening}.bias", bias))
        last_layer = self._config.layers - 1
        for layer in range(self._config.layers):
            only = layer == last_layer and self._config.first_only
            output = self._layer(self._layer_prefix(layer), hidden, first_only=only)
            hidden = self._builder.end_layer(output)
        return hidden

    def _words_and_types(self) -> str:
        """Add the embeddings of a family without a table of positions."""
        config, name, size = self._config, "embeddings.", self._config.hidden_size
        words = self._take(f"{name}word_embeddings.weight", config.vocabulary_size, size)
        if config.token_types:
            # Every token of a single text has type 0.
            types = self._take(f"{name}token_type_embeddings.weight", config.token_types, size)
            words = words + types[0]
        embedded = embedding(self._builder, "input_ids", words, name="words")
        return self._normalize(embedded, self._names.embedding_norm)

    def _layer_prefix(self, layer: int) -> str:
        """Return the prefix of a layer's weights, which a group of layers may share."""
        groups = self._config.groups
        return self._names.layer.format(
            int(layer / (self._config.layers / groups)) if groups else layer
        )

    def _layer(self, layer: str, hidden: str, *, first_only: bool) -> str:
        names, size = self._names, self._config.hidden_size
        weight = self._joined(layer, names.projections, 3 * size // len(names.projections))
        projected = self._linear_with_outliers(hidden, weight, f"{layer}attention", self._amplified)
        attended = self._attended(projected, layer)
        if first_only:
            attended, hidden = self._first(attended), self._first(hidden)
            self._zeros = None  # those of all tokens
        weight = self._take(f"{layer}{names.out}.weight", size, size)
        attended = self._linear_with_outliers(attended, weight, f"{layer}out")
        bias = self._bias(f"{layer}{names.out}")
        before = hidden
        hidden = self._normalized_sum(attended, hidden, f"{layer}{names.attention_norm}", bias=bias)
        if names.second_norm:
            hidden = self._normalized_sum(hidden, before, f"{layer}{names.second_norm}")
        result, bias = self._feed_forward(hidden, layer)
        return self._normalized_sum(result, hidden, f"{layer}{names.output_norm}", bias=bias)

    def _feed_forward(self, hidden: str, layer: str) -> tuple[str, Floats | None]:
        """Add the feed-forward layer, and return its result without its last bias, and that."""
        down, wide = self._names.down, self._config.intermediate_size
        widened = self._widened(hidden, layer)
        weight = self._take(f"{layer}{down}.weight", self._config.hidden_size, wide)
        channels = strong_inputs(weight)
        narrowed = self._linear_with_outliers(widened, weight, f"{layer}down", channels)
        return narrowed, self._bias(f"{layer}{down}")

    def _first(self, value: str) -> str:
        """Take float32 [batch, tokens, width] to [batch, 1, width]."""
        return self._builder.op.Slice(value, self._int64(0), self._int64(1), self._int64(1))

    def _widened(self, hidden: str, layer: str) -> str:
        names, wide = self._names, self._config.intermediate_size
        activation = self._config.activation
        halves = 1 if names.gate is None else 2
        weight = self._joined(layer, names.up, halves * wide // len(names.up))
        widened = self._linear_with_outliers(hidden, weight, f"{layer}up", self._amplified)
        if names.gate is not None:
            both = self._builder.split(widened, [wide] * 2)
            gate, up = both[names.gate], both[1 - names.gate]
            return self._builder.op.Mul(activate(self._builder, gate, activation), up)
        name = f"{layer}{names.up[0]}.bias"
        bias = self._builder.weight(name, self._take(name, wide))
        return activate(self._builder, widened, activation, bias=bias)

    def _joined(self, layer: str, parts: tuple[str, ...], height: int) -> Floats:
        """Return the weights of linear layers with the same input as one."""
        size = self._config.hidden_size
        return np.concatenate([self._take(f"{layer}{name}.weight", height, size) for name in parts])

    def _projections_bias(self, layer: str) -> str:
        """Add the bias of queries, keys and values, float32 [3 * hidden_size]."""
        names = self._names.projections
        size = 3 * self._config.hidden_size // len(names)
        bias = np.concatenate([self._take(f"{layer}{name}.bias", size) for name in names])
        return self._builder.weight(f"{layer}attention.bias", bias)

    def _bias(self, name: str) -> Floats | None:
        if not self._config.biases:
            return None
        return self._take(f"{name}.bias", self._config.hidden_size)

    def _normalized_sum(
        self, value: str, skip: str, name: str, *, bias: Floats | None = None
    ) -> str:
        """Add a linear layer's bias and what goes around the layer, and normalize each row.

        Not with SkipLayerNormalization, ONNX Runtime's operator for the last two: its kernel adds
        up a row one component at a time. For 256 rows of 384 it takes 422 µs and these two nodes
        56, and its error is two to ten times as large.
        """
        if bias is not None:
            value = self._builder.op.Add(value, self._builder.weight(f"{name}.dense.bias", bias))
        return self._normalize(self._builder.op.Add(value, skip), name)

    def _normalize(self, value: str, name: str) -> str:
        """Add the normalization of this name; a family with another than LayerNorm overrides it."""
        gain = self._gains[name] if name in self._gains else self._take_gain(name)
        shift = self._take(f"{name}.bias", self._width(name))
        return self._builder.op.LayerNormalization(
            value,
            self._builder.weight(f"{name}.weight", gain),
            self._builder.weight(f"{name}.bias", shift),
            axis=-1,
            epsilon=self._config.norm_epsilon,
        )

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

    def _start(self) -> str:
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

    def _attended(self, projected: str, layer: str) -> str:
        if self._config.biases:
            projected = self._builder.op.Add(projected, self._projections_bias(layer))
        query, key, value = self._builder.split(projected, [self._config.hidden_size] * 3)
        query, key = (
            self._rotated(tensor, self._rope, heads=self._config.heads, head_size=self._head_size)
            for tensor in (query, key)
        )
        return self._attend.add(query, key, value)
