"""The encoder of `post_norm.py` with rotary positions: Nomic BERT and GTE."""

from dataclasses import dataclass

import numpy as np

from model_compiler.errors import SourceError
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.architectures.post_norm import Names, PostNormConfig, PostNormEncoder
from model_compiler.graph.attention import FullAttention
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.encoder import rotary_tables
from model_compiler.graph.quantization import embedding

#: The names of weights in transformers' classes; a family adds its prefixes and heads.
NAMES = Names(
    models=(),
    heads=(),
    layer="layers.{}.",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    out="self_attn.o_proj",
    attention_norm="post_attention_layernorm",
    up=("mlp.gate_proj", "mlp.up_proj"),
    gate=0,
    down="mlp.down_proj",
    output_norm="post_mlp_layernorm",
)


def head_size(config: ConfigFile, *, hidden_size: int, heads: int) -> int:
    """Return the width of a head.

    Raises:
        SourceError: If it is not even.
        UnsupportedModelError: If `head_dim` states another one.
    """
    if hidden_size % (2 * heads):
        raise SourceError(
            f"{config.path}: the hidden size must be a multiple of twice the number of heads, so "
            f"that halves of heads can be rotated; found {hidden_size} and {heads}."
        )
    config.require("head_dim", None, hidden_size // heads)
    return hidden_size // heads


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryConfig(PostNormConfig):
    """The configuration of an encoder with rotary positions."""

    rope_base: float
    #: By how much all wavelengths of the rotary embedding are longer.
    rope_stretch: float = 1.0

    def build(self, builder: GraphBuilder, weights: Weights) -> str:
        """Add the encoder; see `Architecture.build`."""
        return _Encoder(self, builder, weights).build()


class _Encoder(PostNormEncoder[RotaryConfig]):
    """Builds the graph of one encoder."""

    def _start(self) -> str:
        config, name, size = self._config, "embeddings.", self._config.hidden_size
        self._head_size = size // config.heads
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
        words = self._take(f"{name}word_embeddings.weight", config.vocabulary_size, size)
        if config.token_types:
            # Every token of a single text has type 0.
            types = self._take(f"{name}token_type_embeddings.weight", config.token_types, size)
            words = words + types[0]
        return self._builder.op.LayerNormalization(
            embedding(self._builder, "input_ids", words, name="words"),
            *self._norm_weights(self._names.embedding_norm),
            axis=-1,
            epsilon=config.norm_epsilon,
        )

    def _attended(self, projected: str, layer: str) -> str:
        if self._config.biases:
            name = f"{layer}attention.bias"
            bias = self._builder.weight(name, self._projections_bias(layer))
            projected = self._builder.op.Add(projected, bias)
        query, key, value = self._builder.split(projected, [self._config.hidden_size] * 3)
        return self._attend.add(self._rotated(query), self._rotated(key), value)

    def _rotated(self, value: str) -> str:
        return self._builder.microsoft.RotaryEmbedding(
            value,
            self._builder.constant([0], np.int64),
            *self._rope,
            num_heads=self._config.heads,
            rotary_embedding_dim=self._head_size,
        )
