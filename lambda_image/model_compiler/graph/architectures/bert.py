"""BERT (Devlin et al., 2018, https://arxiv.org/abs/1810.04805): MiniLM, bge, e5, gte and similar.

Weights have the names of transformers' BertModel.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import HARMLESS, ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import (
    Channels,
    Floats,
    Precision,
    amplified_channels,
    embedding,
    linear_with_outliers,
    strong_inputs,
    zero_points,
)

__all__ = ["BertConfig", "parse"]

#: The names of the two forms of GELU in transformers. The exact form uses the error function, the
#: other a hyperbolic tangent. They differ by up to 5e-4, so one cannot replace the other.
EXACT_GELU = frozenset({"gelu", "gelu_python"})
TANH_GELU = frozenset({"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})

#: Settings of the pooler, which sentence embeddings do not use, and of language modeling.
UNUSED = frozenset(
    {
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    }
)

#: Added to the scores of masked tokens, as in transformers (the lowest float32).
MASKED = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The `config.json` of a BERT model."""

    vocabulary_size: int
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    activation: str
    norm_epsilon: float
    max_positions: int
    token_types: int

    @property
    def name(self) -> str:
        """The family's `model_type`."""
        return "bert"

    def build(self, builder: GraphBuilder, weights: Weights, precision: Precision) -> str:
        """Add the encoder; see `architectures.Architecture.build`."""
        return _Encoder(self, builder, weights, precision).build()


def parse(config: ConfigFile) -> BertConfig:
    """Parse a `config.json` of model_type `bert`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong.
    """
    parsed = BertConfig(
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer("hidden_size"),
        layers=config.integer("num_hidden_layers"),
        heads=config.integer("num_attention_heads"),
        intermediate_size=config.integer("intermediate_size"),
        activation=config.string("hidden_act"),
        norm_epsilon=config.number("layer_norm_eps"),
        max_positions=config.integer("max_position_embeddings"),
        token_types=config.integer("type_vocab_size"),
    )
    if parsed.activation not in EXACT_GELU | TANH_GELU | {"relu"}:
        raise UnsupportedModelError(
            f"{config.path}: hidden_act {parsed.activation!r} is not a supported activation; "
            f"the compiler supports {', '.join(sorted(EXACT_GELU | TANH_GELU | {'relu'}))}."
        )
    if parsed.hidden_size % parsed.heads:
        raise SourceError(
            f"{config.path}: hidden_size {parsed.hidden_size} is not a multiple of "
            f"num_attention_heads {parsed.heads}."
        )
    config.require("position_embedding_type", "absolute", None)
    config.require("is_decoder", False, None)
    config.require("add_cross_attention", False, None)
    config.require("pruned_heads", {}, None)
    config.require("is_encoder_decoder", False, None)
    # cointegrated/rubert-tiny2 has it; transformers' BertModel does not read it.
    config.require("emb_size", parsed.hidden_size, None)
    config.ignore(HARMLESS | UNUSED)
    config.done()
    return parsed


class _Encoder:
    """Builds the graph of one encoder."""

    def __init__(
        self, config: BertConfig, builder: GraphBuilder, weights: Weights, precision: Precision
    ) -> None:
        self._config = config
        self._builder = builder
        self._weights = weights
        self._precision = precision
        # A checkpoint with a head, for example for language modeling, has BERT one level down.
        self._prefix = weights.prefix(("", "bert."), "embeddings.word_embeddings.weight")
        self._gains = {name: self._take_gain(name) for name in self._norms()}
        self._amplified = amplified_channels(self._gains.values())

    def build(self) -> str:
        self._zeros = zero_points(self._builder, "input_ids", self._precision)
        hidden = self._embeddings()
        # 1 for a token, 0 for padding, as MultiHeadAttention takes it.
        mask = self._builder.op.Cast("attention_mask", to=TensorProto.INT32)
        for layer in range(self._config.layers):
            hidden = self._layer(f"encoder.layer.{layer}.", hidden, mask)
        head = ("cls.",) if self._prefix else ()
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
            precision=self._precision,
        )
        positions = take(
            f"{name}position_embeddings.weight", config.max_positions, config.hidden_size
        )
        # Every token of a single text has type 0, so that type's vector is added to the positions.
        types = take(f"{name}token_type_embeddings.weight", config.token_types, config.hidden_size)
        tokens = self._builder.op.Gather(self._builder.op.Shape("input_ids"), self._int64([1]))
        there = self._builder.op.Slice(
            self._builder.weight("positions", positions + types[0]),
            self._int64([0]),
            tokens,
            self._int64([0]),
        )
        return self._normalized_sum(words, there, f"{name}LayerNorm.", bias=None)

    def _layer(self, name: str, hidden: str, mask: str) -> str:
        config = self._config
        size, wide = config.hidden_size, config.intermediate_size
        own, out = f"{name}attention.self.", f"{name}attention.output."
        parts = [f"{own}{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._take(f"{part}.weight", size, size) for part in parts])
        projected = self._linear(hidden, weight, f"{name}attention", self._amplified)
        bias = np.concatenate([self._take(f"{part}.bias", size) for part in parts])
        query, key, value = self._builder.split(projected, [size] * 3)
        attended = self._builder.microsoft.MultiHeadAttention(
            query,
            key,
            value,
            self._builder.weight(f"{name}attention.bias", bias),
            mask,
            num_heads=config.heads,
            mask_filter_value=MASKED,
        )
        weight = self._take(f"{out}dense.weight", size, size)
        attended = self._linear(attended, weight, f"{name}out")
        hidden = self._normalized_sum(
            attended, hidden, f"{out}LayerNorm.", bias=self._take(f"{out}dense.bias", size)
        )
        weight = self._take(f"{name}intermediate.dense.weight", wide, size)
        widened = self._linear(hidden, weight, f"{name}up", self._amplified)
        widened = self._activated(widened, f"{name}intermediate.dense.bias")
        weight = self._take(f"{name}output.dense.weight", size, wide)
        narrowed = self._linear(widened, weight, f"{name}down", strong_inputs(weight))
        return self._normalized_sum(
            narrowed,
            hidden,
            f"{name}output.LayerNorm.",
            bias=self._take(f"{name}output.dense.bias", size),
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
        inputs = [
            value,
            skip,
            self._builder.weight(f"{name}weight", self._gains[name]),
            self._builder.weight(
                f"{name}bias", self._take(f"{name}{shift}", self._config.hidden_size)
            ),
        ]
        if bias is not None:
            inputs.append(self._builder.weight(f"{name}dense.bias", bias))
        return self._builder.microsoft.SkipLayerNormalization(
            *inputs, epsilon=self._config.norm_epsilon
        )

    def _norms(self) -> Iterator[str]:
        """Yield the names of all normalizations, each with a dot at its end."""
        yield "embeddings.LayerNorm."
        # A generator: if `layers` is far too large, the first layer without weights ends the loop.
        for layer in range(self._config.layers):
            for part in ("attention.output.", "output."):
                yield f"encoder.layer.{layer}.{part}LayerNorm."

    def _take_gain(self, name: str) -> Floats:
        gain = "gamma" if self._is_old(name) else "weight"
        return self._take(f"{name}{gain}", self._config.hidden_size)

    def _is_old(self, name: str) -> bool:
        """Return whether a normalization has TensorFlow's names, gamma and beta."""
        return f"{self._prefix}{name}gamma" in self._weights

    def _linear(
        self, value: str, weight: Floats, name: str, channels: Channels | None = None
    ) -> str:
        return linear_with_outliers(
            self._builder,
            value,
            weight,
            channels,
            name=name,
            precision=self._precision,
            zeros=self._zeros,
        )

    def _take(self, name: str, *shape: int) -> Floats:
        return self._weights.take(self._prefix + name, *shape)

    def _int64(self, values: list[int]) -> str:
        return self._builder.constant(values, np.int64)
