"""Text encoders with Llama's layers (Touvron et al., 2023, https://arxiv.org/abs/2302.13971).

- Qwen3 (Zhang et al., 2025, https://arxiv.org/abs/2506.05176): Qwen3-Embedding. A token attends to
  itself and to the tokens before it, so the vector of a text is usually that of its last token. As
  padding is on the right, no token of the text attends to it: no mask is needed.
- Qwen3 whose tokens attend to the whole text: voyage-4-nano, which also has a linear layer at the
  end.
- Qwen2 (Yang et al., 2024, https://arxiv.org/abs/2407.10671), whose projections have biases:
  jina-code-embeddings.
- Mistral (Jiang et al., 2023, https://arxiv.org/abs/2310.06825), whose tokens attend to a window of
  those before them.
- EuroBERT (Boizard et al., 2025, https://arxiv.org/abs/2503.05500), which attends to all of a text.

Weights have the names of transformers' classes. The reference implementations are
the families' `modeling_….py` in `transformers/models/`.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.attention import FullAttention
from model_compiler.graph.bases.encoder import ROTARY_BUFFERS, read_activation, rotary_tables
from model_compiler.graph.bases.family import FULL, Family, check_halves, has_own_code, rope_base
from model_compiler.graph.bases.pre_norm import PreNormConfig, PreNormEncoder, PreNormNames
from model_compiler.graph.builder import MICROSOFT

#: The default of transformers' Qwen3Config, whatever the hidden size and the number of heads are.
DEFAULT_HEAD_SIZE = 128
#: ONNX Runtime's GroupQueryAttention rotates heads of multiples of this width only.
HEAD_SIZE_STEP = 16
#: The classes of the models' own code, which the compiler never runs.
OWN_QWEN3 = "Qwen3BidirectionalModel"
OWN_EUROBERT = "EuroBertModel"
NAMES = PreNormNames(
    table="embed_tokens",
    layer="layers.{}.",
    attention_norm="input_layernorm",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    out="self_attn.o_proj",
    output_norm="post_attention_layernorm",
    up=("mlp.gate_proj", "mlp.up_proj"),
    down="mlp.down_proj",
    final_norm="norm",
)
#: The linear layer at the end of Qwen3's own class.
PROJECTION = "linear.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig(PreNormConfig):
    """The `config.json` of a `model_type` in `FAMILIES`."""

    rope_base: float
    #: Whether a token attends only to itself and to the tokens before it.
    causal: bool
    #: Whether each head of queries and keys is normalized.
    head_norms: bool = False
    #: Number of tokens that a causal one attends to, itself included; None for all.
    window: int | None = None


def parse_qwen3(config: ConfigFile) -> LlamaConfig:
    """Parse a `config.json` of model_type `qwen3`; see `Family.parse`."""
    projects = has_own_code(config, OWN_QWEN3)
    # transformers reads the first key, and only the model's own code the second.
    config.require("use_bidirectional_attention", *((True,) if projects else (False, None)))
    causal = config.boolean("is_causal", True) and not projects
    config.require("use_sliding_window", False, None)
    return _parse(
        config,
        head_size=DEFAULT_HEAD_SIZE,
        causal=causal,
        head_norms=True,
        outputs=config.integer("num_labels") if projects else 0,
    )


def parse_qwen2(config: ConfigFile) -> LlamaConfig:
    """Parse a `config.json` of model_type `qwen2`; see `Family.parse`."""
    config.require("use_sliding_window", False, None)
    return _parse(config, causal=config.boolean("is_causal", True), biases=True)


def parse_mistral(config: ConfigFile) -> LlamaConfig:
    """Parse a `config.json` of model_type `mistral`; see `Family.parse`."""
    window = config.integer("sliding_window") if config.has("sliding_window") else None
    config.ignore(frozenset({"sliding_window"}))
    return _parse(config, causal=True, window=window)


def parse_eurobert(config: ConfigFile) -> LlamaConfig:
    """Parse a `config.json` of model_type `eurobert`; see `Family.parse`."""
    has_own_code(config, OWN_EUROBERT)
    config.require("mlp_bias", False, None)
    return _parse(config, causal=False, key_value_heads=config.integer("num_attention_heads"))


def _parse(
    config: ConfigFile,
    *,
    causal: bool,
    key_value_heads: int | None = None,
    head_size: int | None = None,
    head_norms: bool = False,
    biases: bool = False,
    window: int | None = None,
    outputs: int = 0,
) -> LlamaConfig:
    """Parse what the families have in common.

    `key_value_heads` is the default of their number, which the file must state without one,
    `head_size` that of a head's width, and `outputs` the width of a linear layer at the end.
    """
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    parsed = LlamaConfig(
        encoder=_Encoder,
        name=config.string("model_type"),
        names=NAMES,
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=outputs or width,
        width=width,
        intermediate_size=config.integer("intermediate_size"),
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        key_value_heads=config.integer("num_key_value_heads", key_value_heads),
        head_size=config.integer("head_dim", head_size or width // heads),
        activation=read_activation(config, "hidden_act"),
        norm_epsilon=config.number("rms_norm_eps"),
        max_positions=config.integer("max_position_embeddings"),
        rope_base=_rope_base(config),
        causal=causal,
        head_norms=head_norms,
        biases=biases,
        window=window,
        projection=PROJECTION if outputs else "",
    )
    check_halves(config, parsed.head_size)
    if causal and parsed.head_size % HEAD_SIZE_STEP:
        raise UnsupportedModelError(
            f"{config.path}: head_dim must be a multiple of {HEAD_SIZE_STEP}, which ONNX Runtime's "
            f"attention needs; found {parsed.head_size}."
        )
    if parsed.heads % parsed.key_value_heads:
        raise SourceError(
            f"{config.path}: num_attention_heads must be a multiple of num_key_value_heads; "
            f"found {parsed.heads} and {parsed.key_value_heads}."
        )
    config.require("layer_types", [FULL] * parsed.layers, None)
    config.require("attention_bias", False, None)
    return parsed


def _rope_base(config: ConfigFile) -> float:
    """Return the base of the rotary embedding, from the newer key or the older."""
    config.require("rope_scaling", None)
    newer = config.optional("rope_parameters")
    if newer is None:
        return config.number("rope_theta")
    config.ignore(frozenset({"rope_theta"}))
    return rope_base(config, newer, where="rope_parameters")


WINDOWS = {"windows, which use_sliding_window switches off": "max_window_layers sliding_window"}
FAMILIES = {
    "qwen3": Family(parse=parse_qwen3, harmless=WINDOWS, own_code=True),
    "qwen2": Family(parse=parse_qwen2, harmless=WINDOWS),
    "mistral": Family(parse=parse_mistral),
    "eurobert": Family(
        parse=parse_eurobert,
        harmless={
            "a classifier's pooling, dropout and how the weights were trained": """
                classifier_pooling hidden_dropout pretraining_tp"""
        },
        own_code=True,
    ),
}


class _Encoder(PreNormEncoder[LlamaConfig]):
    first_weight = "embed_tokens.weight"
    harmless = ROTARY_BUFFERS
    heads = "lm_head.*"

    def _hidden_state(self) -> str:
        config, hidden = self._config, super()._hidden_state()
        if config.projection:
            # Of the model's own class, which has the encoder one level down.
            projection = self._weights.take(PROJECTION, config.hidden_size, config.width)
            self._builder.weight(PROJECTION, projection.T)
        return hidden

    def _start(self) -> None:
        config = self._config
        if config.causal:
            self._measure_texts()
        else:
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

    def _measure_texts(self) -> None:
        """Add what GroupQueryAttention asks for: int32 [], tokens, and [batch], each last place."""
        op = self._builder.op
        shape = op.Cast(op.Shape("input_ids"), to=TensorProto.INT32)
        tokens = op.Gather(shape, self._int64(1))
        last_token = op.Sub(tokens, self._builder.constant([1], np.int32))
        self._tokens = op.Squeeze(tokens)
        # Padding counts as part of the text: it follows the tokens, which do not attend to it.
        self._last = op.Expand(last_token, op.Gather(op.Shape("input_ids"), self._int64(0)))

    def _attended(self, query: str, key: str, value: str, layer: str) -> str:
        if self._config.head_norms:
            query = self._normalized_heads(query, f"{layer}self_attn.q_norm.weight")
            key = self._normalized_heads(key, f"{layer}self_attn.k_norm.weight")
        attend = self._to_earlier if self._config.causal else self._to_all
        return attend(query, key, value)

    def _to_earlier(self, query: str, key: str, value: str) -> str:
        config, size = self._config, self._config.head_size
        # Without its outputs for a cache, the kernel would make a matrix of all scores instead of
        # computing them piece by piece.
        mixed, keys, values = self._builder.node_with_outputs(
            "GroupQueryAttention",
            query,
            key,
            value,
            "",
            "",
            self._last,
            self._tokens,
            *self._rope,
            num_heads=config.heads,
            kv_num_heads=config.key_value_heads,
            do_rotary=1,
            scale=size**-0.5,
            outputs=3,
            **({"local_window_size": config.window} if config.window else {}),
            domain=MICROSOFT,
        )
        # ONNX Runtime frees a value when its last reader has run, and runs nodes that lead to no
        # output last. So the path to the output reads shapes of the keys and values, both [batch,
        # heads, tokens, size]: otherwise all layers' would be in memory together.
        op = self._builder.op
        shape = op.Concat(
            op.Shape(keys, start=0, end=1),
            op.Shape(values, start=2, end=3),
            self._int64(-1),
            axis=0,
        )
        return op.Reshape(mixed, shape)

    def _to_all(self, query: str, key: str, value: str) -> str:
        config = self._config
        heads, shared, size = config.heads, config.key_value_heads, config.head_size
        query = self._rotated(query, self._rope, heads=heads, head_size=size)
        key = self._rotated(key, self._rope, heads=shared, head_size=size)
        if heads > shared:
            key, value = (self._repeated(tensor, heads // shared, size) for tensor in (key, value))
        return self._attend.add(query, key, value)

    def _normalized_heads(self, value: str, name: str) -> str:
        """Divide each head of [batch, tokens, heads * size] by its root mean square."""
        op, size = self._builder.op, self._config.head_size
        heads = self._by_root_mean_square(
            op.Reshape(value, self._int64(0, 0, -1, size)),
            self._builder.weight(name, self._take(name, size)),
        )
        return op.Reshape(heads, self._int64(0, 0, -1))
