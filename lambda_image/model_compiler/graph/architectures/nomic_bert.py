"""Nomic BERT (Nussbaum et al., 2024, https://arxiv.org/abs/2402.01613): nomic-embed-text-v1.5.

A BERT with rotary positions, a gated feed-forward layer and no biases. Two programs write it under
different keys and names. The model's own code, which the compiler never runs, has the keys of GPT-2
(`n_embd`) and of FlashAttention, transformers those of BERT (`hidden_size`). A file may have both.

Only the own code has the other model, nomic-embed-text-v2-moe (Nussbaum and Duderstadt, 2025,
https://arxiv.org/abs/2502.07972): with biases, without a gate, and every second feed-forward layer
is one of experts, as in `MoEBlock` of https://github.com/nomic-ai/contrastors, with the weights'
names and layout of megablocks.
"""

from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from model_compiler.files.config import ConfigFile
from model_compiler.graph.bases.encoder import activate
from model_compiler.graph.bases.family import Family, rope_base, size_of_heads
from model_compiler.graph.bases.post_norm import (
    ROTARY_NAMES,
    Normalized,
    RotaryConfig,
    RotaryEncoder,
    read_numbers,
)
from model_compiler.graph.quantization import Floats, linear_by_group, strong_inputs, strong_last

#: The keys of transformers and of the model's own code, for numbers of one meaning.
SPELLINGS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
}

#: Settings that must have the values of all published models.
FIXED: dict[str, tuple[object, ...]] = {
    "activation_function": ("swiglu", "gelu"),
    "causal": (False,),
    "expert_choice_router": (False,),
    "ffn_div": (1,),
    "moe_impl": ("megablocks",),
    "num_shared_experts": (0,),
    "parallel_block": (False,),
    "prenorm": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "rotary_scaling_factor": (None,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "scale_attn_weights": (True,),
    "use_rms_norm": (False, None),
}
#: True in nomic-embed-text-v2-moe, and false with a gate, in nomic-embed-text-v1 and v1.5.
BIASES = ("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias")

#: The default of transformers' NomicBertConfig.
DEFAULT_ROPE_BASE = 1000.0


def _keys(config: ConfigFile) -> dict[str, str]:
    """Return the keys in `SPELLINGS` with the names that the file has; of both, the first."""
    names = {}
    for newer, older in SPELLINGS.items():
        keys = [key for key in (newer, older) if config.has(key)] or [newer]
        values = [config.integer(key) for key in keys]
        if len(set(values)) > 1:
            config.fail(older, f"the same as {newer}, {values[0]}", values[1])
        names[newer] = keys[0]
    return names


def _read_rope_base(config: ConfigFile) -> float:
    older = config.number("rotary_emb_base", DEFAULT_ROPE_BASE)
    newer = config.optional("rope_parameters")
    if newer is None:
        return older
    return rope_base(config, newer, where="rope_parameters", default=DEFAULT_ROPE_BASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Routing:
    """The choice of a layer among its experts."""

    experts: int
    #: How many of them each token has.
    chosen: int
    #: Whether the shares of a token's experts are divided by their sum. Otherwise they are those of
    #: the softmax over all experts.
    normalized: bool


def _strong_last(up: Floats, down: Floats) -> tuple[int, Floats, Floats]:
    """Sort the neurons of each expert so that those with large outgoing weights are the last.

    Returns their number, and both weights.
    """
    strong = [strong_inputs(weight.T) for weight in down]
    orders = [strong_last(channels, down.shape[1]) for channels in strong]
    order = np.array(orders)[:, :, None]
    return (
        len(strong[0]),
        np.take_along_axis(up, order, axis=1),
        np.take_along_axis(down, order, axis=1),
    )


TRANSFORMERS = replace(ROTARY_NAMES, models=("bert.", "nomic_bert."), heads="cls.*")
#: The activation is applied to fc12; see `conversion_mapping.py` of transformers.
OWN = replace(
    TRANSFORMERS,
    layer="encoder.layers.{}.",
    projections=("attn.Wqkv",),
    out="attn.out_proj",
    attention_norm="norm1",
    up=("mlp.fc12", "mlp.fc11"),
    down="mlp.fc2",
    output_norm="norm2",
    embedding_norm="emb_ln",
)
OWN_PLAIN = replace(OWN, up=("mlp.fc1",), gate=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NomicBertConfig(RotaryConfig):
    """The `config.json` of a Nomic BERT."""

    #: The numbers of the layers with experts.
    mixtures: tuple[int, ...]
    #: How these choose experts.
    routing: _Routing


class _Encoder(RotaryEncoder[NomicBertConfig]):
    def _feed_forward(self, hidden: Normalized, layer: str) -> str:
        config, routing = self._config, self._config.routing
        if layer not in map(self._layer_prefix, config.mixtures):
            return super()._feed_forward(hidden, layer)
        name, width, wide = f"{layer}mlp.", config.hidden_size, config.intermediate_size
        up, down = (
            self._take(f"{name}experts.mlp.{layer_name}", routing.experts * wide, width).reshape(
                routing.experts, wide, width
            )
            for layer_name in ("w1", "w2")
        )
        router = self._take(f"{name}router.layer.weight", routing.experts, width)
        up, down, router = (weight[..., self._order] for weight in (up, down, router))
        result = self._mixture(self._complete(hidden), name, router, up, down)
        bias = self._take(f"{name}experts.bias", width)
        norm = f"{layer}{self._names.output_norm}"
        return self._builder.op.Sum(result, *self._around(hidden, norm, bias))

    def _mixture(self, hidden: str, name: str, router: Floats, up: Floats, down: Floats) -> str:
        """Add a layer of experts (Shazeer et al., 2017, https://arxiv.org/abs/1701.06538).

        A router chooses a few experts for each token, and the layer's result is the sum of theirs,
        times their shares. The tokens are sorted by expert, so that each expert multiplies all its
        tokens at once, and only these. A token's result depends on no other token: not on how many
        share its expert. Of experts with equal shares, the first is chosen.

        From float32 [batch, tokens, width] to the same shape, without the layer's bias. The router,
        [experts, width], is in float32 for every precision. The experts' weights to their wide side
        and from it are [experts, wide, width]. The last channels of `hidden`, which are amplified,
        are multiplied in float32.
        """
        builder, op, routing = self._builder, self._builder.op, self._config.routing
        chosen, width = routing.chosen, self._config.hidden_size
        tokens = op.Reshape(hidden, builder.int64(-1, width))
        scores = op.MatMul(tokens, builder.weight(f"{name}router", router.T))
        shares, experts = builder.node_with_outputs(
            "TopK", op.Softmax(scores, axis=-1), builder.int64(chosen), outputs=2
        )
        if routing.normalized:
            shares = op.Div(shares, op.ReduceSum(shares, builder.int64(-1), keepdims=1))
        # Choices are in the order of tokens. [experts, choices]: whether a choice is of an expert.
        numbers = builder.constant(np.arange(routing.experts)[:, None], np.int64)
        of_expert = op.Equal(op.Reshape(experts, builder.int64(1, -1)), numbers)
        axis = builder.int64(1)
        sizes = op.ReduceSum(op.Cast(of_expert, to=TensorProto.INT64), axis, keepdims=0)
        # The choices in the order of experts, and the place of each choice in it.
        order = op.Gather(op.NonZero(of_expert), builder.constant(1, np.int64), axis=0)
        slots = op.Range(
            builder.constant(0, np.int64), op.Size(order), builder.constant(1, np.int64)
        )
        slot_of_choice = op.ScatterElements(order, order, slots, axis=0)
        rows = op.Gather(tokens, op.Div(order, builder.constant(chosen, np.int64)), axis=0)

        strong, up, down = _strong_last(up, down)
        ups = {f"{name}up.{number}": weight for number, weight in enumerate(up)}
        widened = linear_by_group(builder, rows, ups, sizes, outliers=self._outliers)
        widened = activate(builder, widened, self._config.activation)
        downs = {f"{name}down.{number}": weight.T for number, weight in enumerate(down)}
        narrowed = linear_by_group(builder, widened, downs, sizes, outliers=strong)

        results = op.Reshape(
            op.Gather(narrowed, slot_of_choice, axis=0), builder.int64(-1, chosen, width)
        )
        weighted = op.Mul(results, op.Unsqueeze(shares, builder.int64(-1)))
        return op.Reshape(op.ReduceSum(weighted, axis, keepdims=0), op.Shape(hidden))


def parse(config: ConfigFile) -> NomicBertConfig:
    """Parse a `config.json` of model_type `nomic_bert`; see `Family.parse`."""
    keys = _keys(config)
    width, heads = keys["hidden_size"], keys["num_attention_heads"]
    config.require("head_dim", None, size_of_heads(config, width=width, heads=heads, rotated=True))
    plain = config.optional("activation_function") == "gelu"
    activation = "gelu" if plain else "silu"
    fixed = {**FIXED, "hidden_act": (activation,), **dict.fromkeys(BIASES, (plain,))}
    for key, allowed in (fixed if plain else {**fixed, "num_experts": (0, None)}).items():
        config.require(key, *allowed)
    epsilon = "layer_norm_eps" if config.has("layer_norm_eps") else "layer_norm_epsilon"
    numbers = read_numbers(config, "max_positions", keys=keys, epsilon=epsilon)
    # Rotary positions have no table, so the larger number holds: transformers has that of training.
    limits = [key for key in ("n_positions", "max_position_embeddings") if config.has(key)]
    mixtures, routing = _read_routing(config, numbers["layers"])
    return NomicBertConfig(
        encoder=_Encoder,
        name="nomic_bert",
        names=(OWN_PLAIN,) if plain else (TRANSFORMERS, OWN),
        biases=plain,
        activation=activation,
        **numbers,
        max_positions=max(map(config.integer, limits or ["max_position_embeddings"])),
        rope_base=_read_rope_base(config),
        mixtures=mixtures,
        routing=routing,
    )


def _read_routing(config: ConfigFile, layers: int) -> tuple[tuple[int, ...], _Routing]:
    """Read the numbers of the layers with experts, and how these choose experts."""
    routing = _Routing(
        experts=config.integer("num_experts", 0, least=0),
        chosen=config.integer("moe_top_k", 1),
        normalized=config.boolean("moe_normalize_expert_weights", default=False),
    )
    every = config.integer("moe_every_n_layers", 0, least=0)
    if not every or not routing.experts:
        return (), routing
    if routing.chosen > routing.experts:
        config.fail("moe_top_k", f"at most num_experts = {routing.experts}", routing.chosen)
    return tuple(layer for layer in range(layers) if layer % every == 1), routing


FAMILY = Family(
    parse=parse,
    harmless={
        "dropout, and the loss of training": """
            attn_pdrop embd_pdrop moe_resid_pdrop resid_pdrop router_aux_loss_coef""",
        "the model's own code, which the compiler's graph replaces": "auto_map",
        "other implementations of the same": """
            fused_bias_fc fused_dropout_add_ln last_layer_subset pad_vocab_size_multiple
            parallel_block_tied_norm reorder_and_upcast_attn use_flash_attn use_xentropy""",
        "heads": """
            dense_seq_output summary_activation summary_first_dropout summary_proj_to_labels
            summary_type summary_use_proj""",
        "from where rotary_scaling_factor, which must be null, would scale": """
            max_trained_positions""",
    },
    own_code=True,
)
