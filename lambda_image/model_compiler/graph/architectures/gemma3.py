"""Gemma 3 as a text encoder (Vera et al., 2025, https://arxiv.org/abs/2509.20354): EmbeddingGemma.

Weights have the names of transformers' Gemma3TextModel. The reference implementation is
`transformers/models/gemma3/modeling_gemma3.py`.
"""

from dataclasses import dataclass

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.attention import Blocks
from model_compiler.graph.bases.both_norms import BothNormsEncoder
from model_compiler.graph.bases.encoder import (
    ROTARY_BUFFERS,
    WindowedConfig,
    read_activation,
    rotary_tables_by_kind,
)
from model_compiler.graph.bases.family import (
    FULL,
    SLIDING,
    Family,
    check_halves,
    rope_bases_by_kind,
    sliding_layers,
)
from model_compiler.graph.quantization import Floats, embedding

#: The defaults of transformers' Gemma3TextConfig.
DEFAULT_ROPE_BASES = {SLIDING: 10_000.0, FULL: 1_000_000.0}
DEFAULT_SLIDING_PATTERN = 6


def _sliding_layers(config: ConfigFile, layers: int) -> tuple[bool, ...]:
    """Return for each layer whether it slides; a pattern has two names."""
    pattern = DEFAULT_SLIDING_PATTERN
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        if config.has(key):
            pattern = config.integer(key)
        config.ignore(frozenset({key}))
    return sliding_layers(config, layers, every=pattern, full=pattern - 1)


def _rope_bases(config: ConfigFile) -> dict[bool, float]:
    """Return the bases of the rotary embedding in sliding layers (True) and in full ones."""
    newer = config.optional("rope_parameters")
    if newer is None:
        config.require("rope_scaling", None)
        return {
            True: config.number("rope_local_base_freq", DEFAULT_ROPE_BASES[SLIDING]),
            False: config.number("rope_theta", DEFAULT_ROPE_BASES[FULL]),
        }
    # transformers prefers the newer key and ignores the older ones.
    config.ignore(frozenset({"rope_local_base_freq", "rope_theta"}))
    config.require("rope_scaling", None)
    return rope_bases_by_kind(config, newer, DEFAULT_ROPE_BASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemma3Config(WindowedConfig):
    """The `config.json` of a Gemma 3 encoder."""

    #: Queries are divided by the square root of this.
    query_scalar: float


def parse(config: ConfigFile) -> Gemma3Config:
    """Parse a `config.json` of model_type `gemma3_text`; see `Family.parse`."""
    rope_bases = _rope_bases(config)
    # The one of every published model, and the one that vectors were compared with.
    config.require("hidden_activation", "gelu_pytorch_tanh")
    parsed = Gemma3Config(
        encoder=_Encoder,
        name="gemma3_text",
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer("hidden_size"),
        intermediate_size=config.integer("intermediate_size"),
        activation=read_activation(config, "hidden_activation"),
        heads=config.integer("num_attention_heads"),
        head_size=config.integer("head_dim"),
        query_scalar=config.number("query_pre_attn_scalar"),
        norm_epsilon=config.number("rms_norm_eps"),
        max_positions=config.integer("max_position_embeddings"),
        # The stored number is the width of the whole window: transformers attends where
        # |i - j| < sliding_window // 2 + 1 if attention goes both ways.
        reach=config.integer("sliding_window") // 2,
        sliding=_sliding_layers(config, config.integer("num_hidden_layers")),
        rope_bases=rope_bases,
    )
    check_halves(config, parsed.head_size)
    if not config.boolean("use_bidirectional_attention", False):
        raise UnsupportedModelError(
            f"{config.path}: use_bidirectional_attention is not true, so this model "
            "generates text; the compiler supports bidirectional attention only."
        )
    config.require("num_key_value_heads", 1)
    config.require("attention_bias", False, None)
    config.require("attn_logit_softcapping", None)
    return parsed


FAMILY = Family(parse=parse, harmless={"language modeling": "final_logit_softcapping"})


class _Encoder(BothNormsEncoder[Gemma3Config]):
    """Builds the graph of one encoder.

    Values of tokens are float32 [batch, tokens, width]. Heads lie side by side in `width`; as
    all query heads share one key and value head, [batch, tokens * heads, head_size] are the same
    bytes, and attention is one product for all heads.
    """

    first_weight = "embed_tokens.weight"
    harmless = ROTARY_BUFFERS
    heads = "lm_head.*"

    @property
    def _width(self) -> int:
        return self._config.hidden_size

    def _hidden_state(self) -> str:
        config, op = self._config, self._builder.op
        self._blocks = blocks = Blocks(
            self._builder, reach=config.reach, shared_by=config.heads, width=config.head_size
        )
        self._full_bias = op.Unsqueeze(blocks.key_bias, self._int64(1))
        self._begin(blocks.ids)
        self._rope = rotary_tables_by_kind(self._builder, config)
        heads_width = config.heads * config.head_size
        self._heads_beside = op.Concat(
            blocks.batch, blocks.padded, self._int64(heads_width), axis=0
        )
        self._heads_below = self._int64(0, -1, config.head_size)
        self._tokens_wide = op.Concat(blocks.batch, self._int64(-1, heads_width), axis=0)
        x = embedding(
            self._builder,
            blocks.ids,
            self._take("embed_tokens.weight", config.vocabulary_size, config.hidden_size),
            name="tokens",
            scale=config.hidden_size**0.5,
        )
        for layer, sliding in enumerate(config.sliding):
            name = f"layers.{layer}."
            hidden = self._attention(x, name, sliding=sliding, first=layer == 0)
            x = op.Add(x, self._normalized(hidden, f"{name}post_attention_layernorm.weight"))
            rows = self._read(x, f"{name}pre_feedforward_layernorm.weight")
            hidden = self._feed_forward(rows, f"{name}mlp.")
            hidden = self._normalized(hidden, f"{name}post_feedforward_layernorm.weight")
            x = self._builder.end_layer(op.Add(x, hidden))
        hidden = self._normalized(x, "norm.weight")
        # Remove the padding that the blocks needed.
        return op.Slice(hidden, self._int64(0), blocks.tokens, self._int64(1))

    def _attention(self, x: str, layer: str, *, sliding: bool, first: bool) -> str:
        """Attend, and return the result without its scales, before its normalization."""
        config, op, blocks = self._config, self._builder.op, self._blocks
        name, size = f"{layer}self_attn.", config.head_size
        rows = self._read(x, f"{layer}input_layernorm.weight")
        multiply = self._scaled if first else self._unscaled
        query = multiply(rows, f"{name}q_proj.weight", config.heads * size)
        key = multiply(rows, f"{name}k_proj.weight", size)
        value = self._scaled(rows, f"{name}v_proj.weight", size)
        # The divisor of the scores is part of the queries' gain.
        query = self._normalized(
            op.Reshape(query, self._heads_below),
            f"{name}q_norm.weight",
            size,
            factor=config.query_scalar**-0.5,
        )
        query = op.Reshape(query, self._heads_beside)
        rope, positions = self._rope[sliding], blocks.positions
        query = self._rotated(query, rope, heads=config.heads, head_size=size, places=positions)
        key = self._normalized(key, f"{name}k_norm.weight", size)
        key = self._rotated(key, rope, heads=1, head_size=size, places=positions)
        if sliding:
            query = op.Reshape(query, blocks.queries_shape)
            key, value = (op.Gather(tensor, blocks.keys, axis=1) for tensor in (key, value))
        else:
            query = op.Reshape(query, self._heads_below)
        scores = self._builder.microsoft.FusedMatMul(query, key, transB=1)
        scores = op.Add(scores, blocks.bias if sliding else self._full_bias)
        mixed = op.MatMul(op.Softmax(scores, axis=-1), value)
        mixed = op.Reshape(mixed, self._tokens_wide)
        return self._attention_output(mixed, f"{name}o_proj.weight", config.heads * size)

    def _gain(self, name: str, size: int) -> Floats:
        """See the base; Gemma stores gains as differences from one."""
        return 1 + super()._gain(name, size)
