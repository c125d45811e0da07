"""Nomic BERT (Nussbaum et al., 2024, https://arxiv.org/abs/2402.01613): nomic-embed-text-v1.5.

A BERT with rotary positions, a gated feed-forward layer and no biases. Two programs write it under
different keys and names. The model's own code, which the compiler never runs, has the keys of GPT-2
(`n_embd`) and of FlashAttention, transformers those of BERT (`hidden_size`). A file may have both.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from model_compiler.errors import SourceError
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.architectures.layer_settings import rope_base
from model_compiler.graph.attention import FullAttention
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.encoder import Encoder, activate, add_and_normalize, rotary_tables
from model_compiler.graph.quantization import amplified_channels, embedding, strong_inputs

__all__ = ["NomicBertConfig", "parse"]

#: The keys of transformers and of the model's own code, for numbers of one meaning.
SPELLINGS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
}

#: Settings that must have the values of nomic-embed-text-v1 and v1.5.
FIXED: dict[str, tuple[object, ...]] = {
    "activation_function": ("swiglu",),
    "causal": (False,),
    "head_dim": (None,),
    "hidden_act": ("silu",),
    "mlp_fc1_bias": (False,),
    "mlp_fc2_bias": (False,),
    "parallel_block": (False,),
    "prenorm": (False,),
    "qkv_proj_bias": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "rotary_scaling_factor": (None,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "scale_attn_weights": (True,),
    "use_rms_norm": (False, None),
}

#: The default of transformers' NomicBertConfig.
DEFAULT_ROPE_BASE = 1000.0


def _read_numbers(config: ConfigFile) -> dict[str, int]:
    """Read the numbers of `SPELLINGS` by the keys of transformers, and `max_positions`."""
    found = {}
    for newer, older in SPELLINGS.items():
        keys = [key for key in (newer, older) if config.has(key)] or [newer]
        values = [config.integer(key) for key in keys]
        if len(set(values)) > 1:
            config.fail(older, f"the same as {newer}, {values[0]}", values[1])
        found[newer] = values[0]
    # Rotary positions have no table, so the larger number holds: transformers has that of training.
    keys = [key for key in ("n_positions", "max_position_embeddings") if config.has(key)]
    found["max_positions"] = max(map(config.integer, keys or ["max_position_embeddings"]))
    return found


def _read_rope_base(config: ConfigFile) -> float:
    """Return the base of the rotary embedding."""
    older = config.number("rotary_emb_base", DEFAULT_ROPE_BASE)
    newer = config.optional("rope_parameters")
    if newer is None:
        return older
    return rope_base(config, newer, where="rope_parameters", default=DEFAULT_ROPE_BASE)


def _require_fixed(config: ConfigFile, *, head_size: int) -> None:
    """Check the settings with values that the graph takes for granted."""
    for key, allowed in FIXED.items():
        config.require(key, *allowed, *((head_size,) if key == "head_dim" else ()))


@dataclass(frozen=True, slots=True)
class NomicBertConfig:
    """The `config.json` of a Nomic BERT."""

    vocabulary_size: int
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    norm_epsilon: float
    max_positions: int
    token_types: int
    rope_base: float

    @property
    def name(self) -> str:
        """The family's `model_type`."""
        return "nomic_bert"

    @property
    def head_size(self) -> int:
        """Width of a head."""
        return self.hidden_size // self.heads

    def build(self, builder: GraphBuilder, weights: Weights) -> str:
        """Add the encoder; see `architectures.Architecture.build`."""
        return _Encoder(self, builder, weights).build()


def parse(config: ConfigFile) -> NomicBertConfig:
    """Parse a `config.json` of model_type `nomic_bert`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong.
    """
    numbers = _read_numbers(config)
    epsilon = "layer_norm_eps" if config.has("layer_norm_eps") else "layer_norm_epsilon"
    parsed = NomicBertConfig(
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=numbers["hidden_size"],
        layers=numbers["num_hidden_layers"],
        heads=numbers["num_attention_heads"],
        intermediate_size=numbers["intermediate_size"],
        norm_epsilon=config.number(epsilon),
        max_positions=numbers["max_positions"],
        token_types=config.integer("type_vocab_size"),
        rope_base=_read_rope_base(config),
    )
    if parsed.hidden_size % (2 * parsed.heads):
        raise SourceError(
            f"{config.path}: the hidden size must be a multiple of twice the number of heads, so "
            f"that halves of heads can be rotated; found {parsed.hidden_size} and {parsed.heads}."
        )
    _require_fixed(config, head_size=parsed.head_size)
    config.done("config.json", "nomic_bert")
    return parsed


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of weights, as one of the two programs writes them."""

    embedding_norm: str
    layer: str
    out: str
    gate: str
    up: str
    down: str
    attention_norm: str
    feed_forward_norm: str
    #: Queries, keys and values; a single name if they are one matrix.
    projections: tuple[str, ...]


TRANSFORMERS = _Names(
    embedding_norm="embeddings.LayerNorm",
    layer="layers.",
    out="self_attn.o_proj",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
    attention_norm="post_attention_layernorm",
    feed_forward_norm="post_mlp_layernorm",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
)
#: The activation is applied to fc12; see `conversion_mapping.py` of transformers.
OWN = _Names(
    embedding_norm="emb_ln",
    layer="encoder.layers.",
    out="attn.out_proj",
    gate="mlp.fc12",
    up="mlp.fc11",
    down="mlp.fc2",
    attention_norm="norm1",
    feed_forward_norm="norm2",
    projections=("attn.Wqkv",),
)


class _Encoder(Encoder[NomicBertConfig]):
    """Builds the graph of one encoder."""

    first_weight = "embeddings.word_embeddings.weight"

    def __init__(self, config: NomicBertConfig, builder: GraphBuilder, weights: Weights) -> None:
        super().__init__(config, builder, weights)
        is_own = f"{self._prefix}{OWN.embedding_norm}.weight" in weights
        self._names = OWN if is_own else TRANSFORMERS
        self._gains = {
            name: self._take(f"{name}.weight", config.hidden_size) for name in self._norms()
        }
        self._amplified = amplified_channels(self._gains.values())

    @property
    def prefixes(self) -> tuple[str, ...]:
        """That of a checkpoint with a head, by either program."""
        return ("", "bert.", "nomic_bert.")

    def build(self) -> str:
        config, op = self._config, self._builder.op
        self._begin("input_ids")
        self._attend = FullAttention.with_mask(
            self._builder, heads=config.heads, head_size=config.head_size
        )
        self._rope = rotary_tables(
            self._builder,
            base=config.rope_base,
            head_size=config.head_size,
            positions=config.max_positions,
            name="rope",
            by_row=True,
        )
        hidden = op.LayerNormalization(
            self._embeddings(),
            *self._norm_weights(self._names.embedding_norm),
            axis=-1,
            epsilon=config.norm_epsilon,
        )
        for layer in range(config.layers):
            hidden = self._builder.end_layer(self._layer(f"{self._names.layer}{layer}.", hidden))
        head = ("cls.",) if self._prefix else ()
        self._weights.ignore(f"{self._prefix}pooler.", *head)
        self._weights.done()
        return hidden

    def _embeddings(self) -> str:
        config, name = self._config, "embeddings."
        size = config.hidden_size
        words = self._take(f"{name}word_embeddings.weight", config.vocabulary_size, size)
        types = self._take(f"{name}token_type_embeddings.weight", config.token_types, size)
        # Every token of a single text has type 0.
        table = words + types[0]
        return embedding(self._builder, "input_ids", table, name="words")

    def _layer(self, layer: str, hidden: str) -> str:
        names, size, wide = self._names, self._config.hidden_size, self._config.intermediate_size
        height = 3 * size // len(names.projections)
        weight = np.concatenate(
            [self._take(f"{layer}{part}.weight", height, size) for part in names.projections]
        )
        projected = self._linear_with_outliers(hidden, weight, f"{layer}attention", self._amplified)
        query, key, value = self._builder.split(projected, [size] * 3)
        attended = self._attend.add(self._rotated(query), self._rotated(key), value)
        weight = self._take(f"{layer}{names.out}.weight", size, size)
        attended = self._linear_with_outliers(attended, weight, f"{layer}out")
        hidden = self._normalized_sum(attended, hidden, f"{layer}{names.attention_norm}")
        weight = np.concatenate(
            [self._take(f"{layer}{part}.weight", wide, size) for part in (names.gate, names.up)]
        )
        widened = self._linear_with_outliers(hidden, weight, f"{layer}up", self._amplified)
        gate, up = self._builder.split(widened, [wide] * 2)
        gated = self._builder.op.Mul(activate(self._builder, gate, "silu"), up)
        weight = self._take(f"{layer}{names.down}.weight", size, wide)
        narrowed = self._linear_with_outliers(gated, weight, f"{layer}down", strong_inputs(weight))
        return self._normalized_sum(narrowed, hidden, f"{layer}{names.feed_forward_norm}")

    def _rotated(self, value: str) -> str:
        return self._builder.microsoft.RotaryEmbedding(
            value,
            self._builder.constant([0], np.int64),
            *self._rope,
            num_heads=self._config.heads,
            rotary_embedding_dim=self._config.head_size,
        )

    def _normalized_sum(self, value: str, skip: str, name: str) -> str:
        return add_and_normalize(
            self._builder,
            value,
            skip,
            *self._norm_weights(name),
            epsilon=self._config.norm_epsilon,
        )

    def _norm_weights(self, name: str) -> tuple[str, str]:
        bias = self._take(f"{name}.bias", self._config.hidden_size)
        return (
            self._builder.weight(f"{name}.weight", self._gains[name]),
            self._builder.weight(f"{name}.bias", bias),
        )

    def _norms(self) -> Iterator[str]:
        """Yield the names of all normalizations."""
        yield self._names.embedding_norm
        for layer in range(self._config.layers):
            for part in (self._names.attention_norm, self._names.feed_forward_norm):
                yield f"{self._names.layer}{layer}.{part}"
