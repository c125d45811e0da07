"""The settings of Nomic BERT, which two programs write under different keys.

The model's own code has the keys of GPT-2 (`n_embd`) and of FlashAttention, transformers has those
of BERT (`hidden_size`). A file may have both.
"""

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.layer_settings import rope_base

__all__ = ["read_numbers", "read_rope_base", "require_fixed"]

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


def read_numbers(config: ConfigFile) -> dict[str, int]:
    """Read the numbers of `SPELLINGS` by the keys of transformers, and `max_positions`.

    Raises:
        SourceError: If one is missing, wrong, or has two values.
    """
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


def read_rope_base(config: ConfigFile) -> float:
    """Return the base of the rotary embedding."""
    older = config.number("rotary_emb_base", DEFAULT_ROPE_BASE)
    newer = config.optional("rope_parameters")
    if newer is None:
        return older
    return rope_base(config, newer, where="rope_parameters", default=DEFAULT_ROPE_BASE)


def require_fixed(config: ConfigFile, *, head_size: int) -> None:
    """Check the settings whose values the graph takes for granted.

    Raises:
        UnsupportedModelError: If one has another value.
    """
    for key, allowed in FIXED.items():
        config.require(key, *allowed, *((head_size,) if key == "head_dim" else ()))
