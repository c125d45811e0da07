"""ModernBERT (Warner et al., 2024, https://arxiv.org/abs/2412.13663): gte-modernbert and similar.

Weights have the names of transformers' ModernBertModel. The reference implementation is
`transformers/models/modernbert/modeling_modernbert.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from model_compiler.files.config import ConfigFile
from model_compiler.graph.attention import Blocks, HeadAttention
from model_compiler.graph.bases.encoder import (
    ROTARY_BUFFERS,
    Encoder,
    WindowedConfig,
    activate,
    quick_activation,
    read_activation,
    rotary_tables_by_kind,
)
from model_compiler.graph.bases.family import (
    FULL,
    SLIDING,
    Family,
    rope_bases_by_kind,
    size_of_heads,
    sliding_layers,
)
from model_compiler.graph.bases.pre_norm import ResidualStream
from model_compiler.graph.quantization import Floats, Rows, dequantize, embedding, matmul

#: The defaults of transformers' ModernBertConfig.
DEFAULT_FULL_EVERY, DEFAULT_LOCAL_ATTENTION = 3, 128
DEFAULT_ROPE_BASES = {SLIDING: 10_000.0, FULL: 160_000.0}


def _rope_bases(config: ConfigFile) -> dict[bool, float]:
    """Return the bases of the rotary embedding in sliding layers (True) and in full ones."""
    bases = {}
    for layer_type, key in ((SLIDING, "local_rope_theta"), (FULL, "global_rope_theta")):
        if not config.has(key):  # Versions of transformers disagree about null.
            config.require(key, "a positive number")
        bases[layer_type] = config.number(key, DEFAULT_ROPE_BASES[layer_type])
    config.require("rope_scaling", None)
    newer = config.optional("rope_parameters")
    return rope_bases_by_kind(config, {} if newer is None else newer, bases)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernBertConfig(WindowedConfig):
    """The `config.json` of a ModernBERT model."""

    norm_bias: bool
    attention_bias: bool
    feed_forward_bias: bool


def parse(config: ConfigFile) -> ModernBertConfig:
    """Parse a `config.json` of model_type `modernbert`; see `Family.parse`."""
    rope_bases = _rope_bases(config)
    return ModernBertConfig(
        encoder=_Encoder,
        name="modernbert",
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer("hidden_size"),
        intermediate_size=config.integer("intermediate_size"),
        heads=config.integer("num_attention_heads"),
        head_size=size_of_heads(config, rotated=True),
        activation=read_activation(config, "hidden_activation"),
        norm_epsilon=config.number("norm_eps"),
        norm_bias=config.boolean("norm_bias", False),
        attention_bias=config.boolean("attention_bias", False),
        feed_forward_bias=config.boolean("mlp_bias", False),
        max_positions=config.integer("max_position_embeddings"),
        # The stored number is the width of the whole window: transformers attends where
        # |i - j| <= local_attention // 2.
        reach=config.integer("local_attention", DEFAULT_LOCAL_ATTENTION) // 2,
        sliding=sliding_layers(
            config,
            config.integer("num_hidden_layers"),
            every=config.integer("global_attn_every_n_layers", DEFAULT_FULL_EVERY),
            full=0,
        ),
        rope_bases=rope_bases,
    )


def read_modernbert_head(config: ConfigFile) -> dict[str, Any]:
    """Return what a `config.json` says of the dense layer of a head, and its normalization.

    An activation must be stated, because versions of transformers differ in the default.
    """
    if not config.has("classifier_activation"):
        config.fail("classifier_activation", "the name of a function", None)
    return {
        "activation": read_activation(config, "classifier_activation"),
        "dense_bias": config.boolean("classifier_bias", False),
        "norm_bias": config.boolean("norm_bias", False),
        "norm_epsilon": config.number("norm_eps"),
    }


FAMILY = Family(
    parse=parse,
    harmless={
        "dropout and initial weights": "embedding_dropout initializer_cutoff_factor mlp_dropout",
        "heads": """
            classifier_activation classifier_bias classifier_pooling decoder_bias
            sparse_pred_ignore_index sparse_prediction""",
        "other implementations of the same attention": """
            deterministic_flash_attn reference_compile repad_logits_with_grad""",
        "settings that transformers' ModernBertModel does not read": """
            layer_norm_eps position_embedding_type""",
    },
)


class _Encoder(Encoder[ModernBertConfig]):
    first_weight = "embeddings.tok_embeddings.weight"
    harmless = ROTARY_BUFFERS
    heads = "head.* decoder.*"

    def _hidden_state(self) -> str:
        config, op = self._config, self._builder.op
        self._blocks = blocks = Blocks(self._builder, reach=config.reach, width=config.hidden_size)
        self._begin(blocks.ids)
        self._rope = rotary_tables_by_kind(self._builder, config, by_row=True)
        self._attend = HeadAttention(
            self._builder, blocks, heads=config.heads, head_size=config.head_size
        )
        self._stream = ResidualStream(
            builder=self._builder,
            width=config.hidden_size,
            epsilon=config.norm_epsilon,
            subtracts_mean=True,
            # A bias of a normalization cannot be part of the weights that read.
            spreads=self._builder.int8 and not config.norm_bias,
        )
        embedded = embedding(
            self._builder, blocks.ids, self._stream.table(self._normalized_table()), name="tokens"
        )
        x = self._stream.start(embedded)
        for layer, sliding in enumerate(config.sliding):
            name = f"layers.{layer}."
            # The norm of the embeddings takes the place of the first layer's.
            rows, gain = (
                self._read(x, f"{name}attn_norm")
                if layer
                else (self._quantized(embedded, config.hidden_size), None)
            )
            x = op.Add(x, self._attention(rows, gain, f"{name}attn.", sliding=sliding))
            rows, gain = self._read(x, f"{name}mlp_norm")
            x = self._builder.end_layer(op.Add(x, self._feed_forward(rows, gain, f"{name}mlp.")))
        final, shift = self._norm("final_norm")
        hidden = self._stream.output(x, final, name="final_norm", shift=shift)
        # Remove the padding that the blocks needed.
        return op.Slice(hidden, self._int64(0), blocks.tokens, self._int64(1))

    def _attention(self, rows: Rows, gain: Floats | None, name: str, *, sliding: bool) -> str:
        config, size = self._config, self._config.hidden_size
        stacked = self._stream.reader(self._take(f"{name}Wqkv.weight", 3 * size, size), gain)
        bias = self._take(f"{name}Wqkv.bias", 3 * size) if config.attention_bias else None
        projected = self._linear(rows, stacked, bias, f"{name}Wqkv")
        query, key, value = self._builder.split(projected, [size] * 3)
        query, key = (
            self._rotated(
                tensor,
                self._rope[sliding],
                heads=config.heads,
                head_size=config.head_size,
                places=self._blocks.positions,
            )
            for tensor in (query, key)
        )
        attend = self._attend.within_window if sliding else self._attend.to_all
        rows = self._quantized(attend(query, key, value), size)
        return self._written(rows, f"{name}Wo", size, bias=config.attention_bias)

    def _feed_forward(self, rows: Rows, gain: Floats | None, name: str) -> str:
        config = self._config
        narrow, wide = config.hidden_size, config.intermediate_size
        stacked = self._stream.reader(self._take(f"{name}Wi.weight", 2 * wide, narrow), gain)
        biases: Sequence[Floats | None] = (None, None)
        if config.feed_forward_bias:
            biases = np.split(self._take(f"{name}Wi.bias", 2 * wide), 2)
        gate, up = (
            self._linear(rows, weight, bias, f"{name}{layer_name}")
            for layer_name, weight, bias in zip(
                ("gate", "up"), np.split(stacked, 2), biases, strict=True
            )
        )
        activation = quick_activation(self._builder, config.activation)
        gated = self._builder.op.Mul(activate(self._builder, gate, activation), up)
        rows = self._quantized(gated, wide)
        return self._written(rows, f"{name}Wo", wide, bias=config.feed_forward_bias)

    def _read(self, x: str, name: str) -> tuple[Rows, Floats | None]:
        """Return normalized rows of the stream, and the normalization's gain."""
        gain, shift = self._norm(name)
        hidden = self._stream.normalized(x, gain, name=name, shift=shift)
        return self._quantized(hidden, self._config.hidden_size), gain

    def _written(self, rows: Rows, name: str, inputs: int, *, bias: bool) -> str:
        """Multiply rows by a weight; its outputs are added to the stream."""
        size, writer = self._config.hidden_size, self._stream.writer
        weight = writer(self._take(f"{name}.weight", size, inputs))
        shift = writer(self._take(f"{name}.bias", size)[:, None])[:, 0] if bias else None
        return self._linear(rows, weight, shift, name)

    def _normalized_table(self) -> Floats:
        """Return the rows of the embedding table as their normalization makes them.

        Nothing is added to a token's row before it is normalized, so this need not be done at run
        time.
        """
        config = self._config
        table = self._take(
            "embeddings.tok_embeddings.weight", config.vocabulary_size, config.hidden_size
        )
        gain = self._take("embeddings.norm.weight", config.hidden_size)
        table -= table.mean(axis=1, keepdims=True)
        variance = np.square(table).mean(axis=1, keepdims=True)
        table /= np.sqrt(variance + np.float32(config.norm_epsilon))
        table *= gain
        if config.norm_bias:
            table += self._take("embeddings.norm.bias", config.hidden_size)
        return table

    def _norm(self, name: str) -> tuple[Floats, Floats | None]:
        size = self._config.hidden_size
        bias = self._take(f"{name}.bias", size) if self._config.norm_bias else None
        return self._take(f"{name}.weight", size), bias

    def _linear(self, rows: Rows, weight: Floats, bias: Floats | None, name: str) -> str:
        product = dequantize(self._builder, matmul(self._builder, rows, weight, name=name), rows)
        if bias is None:
            return product
        return self._builder.op.Add(product, self._builder.weight(f"{name}.bias", bias))
