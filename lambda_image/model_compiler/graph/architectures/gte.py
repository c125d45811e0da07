"""GTE (Zhang et al., 2024, https://arxiv.org/abs/2407.19669): gte-multilingual-base, gte-*-en-v1.5.

A BERT with rotary positions and a gated feed-forward layer. It has three spellings. The model's own
code, which the compiler never runs, has the `model_type` "new"; a copy of it, in
snowflake-arctic-embed-m-v2.0, has "gte", as transformers has since version 5 under its own names.
"""

from dataclasses import replace
from typing import Any

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.bases.encoder import read_activation
from model_compiler.graph.bases.family import Family, has_own_code, rope_base, size_of_heads
from model_compiler.graph.bases.post_norm import (
    ROTARY_NAMES,
    RotaryConfig,
    RotaryEncoder,
    read_numbers,
)

#: gte-multilingual-base weighs tokens for sparse vectors by `classifier.`.
TRANSFORMERS = replace(ROTARY_NAMES, models=("new.", "gte."), heads="lm_head.* classifier.*")
OWN = replace(
    TRANSFORMERS,
    layer="encoder.layer.{}.",
    projections=("attention.qkv_proj",),
    out="attention.o_proj",
    attention_norm="attn_ln",
    up=("mlp.up_gate_proj",),
    gate=1,
    output_norm="mlp_ln",
)

#: Settings that must have the values of the published models.
FIXED: dict[str, tuple[object, ...]] = {
    "layer_norm_type": ("layer_norm",),
    "logn_attention_scale": (False,),
    "pack_qkv": (True,),
    "position_embedding_type": ("rope", None),
}


def parse(config: ConfigFile) -> RotaryConfig:
    """Parse a `config.json` of model_type `gte` or `new`; see `Family.parse`."""
    head = size_of_heads(config, rotated=True)
    config.require("head_dim", None, head)
    base, stretch = _read_rope(config, head)
    for key, allowed in FIXED.items():
        config.require(key, *allowed)
    if not has_own_code(config, "NewModel", "GteModel") and config.string("model_type") == "new":
        raise UnsupportedModelError(
            f"{config.path}: model_type 'new' may be any model's, so auto_map.AutoModel must name "
            "NewModel or GteModel; found no auto_map."
        )
    return RotaryConfig(
        encoder=RotaryEncoder,
        name="gte",
        names=(TRANSFORMERS, OWN),
        **read_numbers(config, "token_types"),
        activation=read_activation(config, "hidden_act"),
        token_types=config.integer("type_vocab_size", least=0),
        rope_base=base,
        rope_stretch=stretch,
    )


def _read_rope(config: ConfigFile, head: int) -> tuple[float, float]:
    """Return the base of the rotary embedding, and by how much its wavelengths are longer.

    The model's own code stretches them by rope_scaling of type "ntk", transformers by rope_type
    "linear".
    """
    newer, older = config.optional("rope_parameters"), config.optional("rope_scaling")
    base = config.number("rope_theta") if newer is None or config.has("rope_theta") else None
    config.ignore(frozenset({"rope_theta"}))
    if newer is None and base is not None:
        stretch = 1.0 if older is None else _read_ntk(config, older)
        return base * stretch, stretch ** (2 / head)
    config.require("rope_scaling", None)
    stretch = 1.0
    if isinstance(newer, dict) and newer.get("rope_type") == "linear":
        stretch = _factor(config, "rope_parameters", newer)
        newer = {key: newer[key] for key in newer if key not in {"rope_type", "factor"}}
    stated_base = rope_base(config, newer, where="rope_parameters", default=base)
    if base not in (None, stated_base):
        config.fail("rope_theta", f"the same as in rope_parameters, {stated_base}", base)
    return stated_base, stretch


def _read_ntk(config: ConfigFile, scaling: Any) -> float:
    """Return the factor of https://kexue.fm/archives/9706, formula 6; `mixed_b` is of another."""
    if not isinstance(scaling, dict) or scaling.keys() - {"mixed_b"} != {"type", "factor"}:
        config.fail("rope_scaling", "an object of type and factor", scaling)
    if scaling["type"] != "ntk" or scaling.get("mixed_b") is not None:
        raise UnsupportedModelError(
            f"{config.path}: rope_scaling is {scaling!r}; the compiler can express the type 'ntk' "
            "without mixed_b."
        )
    return _factor(config, "rope_scaling", scaling)


def _factor(config: ConfigFile, where: str, parameters: dict[str, Any]) -> float:
    factor: Any = parameters.get("factor")
    if type(factor) not in {int, float} or not 1 <= factor < float("inf"):
        config.fail(f"{where}.factor", "a number of at least 1", factor)
    return float(factor)


FAMILY = Family(
    parse=parse,
    harmless={
        "layouts that compute the same": "unpad_inputs use_memory_efficient_attention",
        "read only if logn_attention_scale is true": "logn_attention_clip1",
        "the dimensions that it was trained for, of which a caller chooses one": """
            matryoshka_dimensions""",
    },
    own_code=True,
)
FAMILIES = {"gte": FAMILY, "new": FAMILY}
