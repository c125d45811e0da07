"""The settings of layers that the `config.json` of several families have in common.

Since version 5, transformers writes which layers attend within a window (`layer_types`) and the
bases of the rotary embedding (`rope_parameters`) in one form for all families.
"""

from collections.abc import Mapping
from typing import Any

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile

SLIDING = "sliding_attention"
FULL = "full_attention"


def size_of_heads(
    config: ConfigFile,
    *,
    width: str = "hidden_size",
    heads: str = "num_attention_heads",
    rotated: bool = False,
) -> int:
    """Return the width of a head, from the keys of the width of all and of their number."""
    all_, count = config.integer(width), config.integer(heads)
    if all_ % (2 * count if rotated else count):
        raise SourceError(
            f"{config.path}: {width} must be a multiple of {'twice ' if rotated else ''}{heads}"
            f"{', so that halves of heads can be rotated' if rotated else ''}; found {all_} and "
            f"{count}."
        )
    return all_ // count


def check_halves(config: ConfigFile, head_size: int) -> None:
    """Check that halves of heads can be rotated; raises a SourceError."""
    if head_size % 2:
        raise SourceError(
            f"{config.path}: head_dim must be even, so that halves can be rotated; "
            f"found {head_size}."
        )


def sliding_layers(config: ConfigFile, layers: int, *, every: int, full: int) -> tuple[bool, ...]:
    """Return for each layer whether it slides: by `layer_types`, or in older files by a pattern.

    In that, one of `every` so many layers is full, which is `full`, counted from 0.
    """
    types = config.optional("layer_types")
    if types is None:
        return tuple(layer % every != full for layer in range(layers))
    if not isinstance(types, list) or len(types) != layers:
        config.fail("layer_types", f"a list of num_hidden_layers = {layers} names", types)
    for found in types:
        if found not in (SLIDING, FULL):
            raise UnsupportedModelError(
                f"{config.path}: layer_types has {found!r}; "
                f"the compiler can express {SLIDING!r} and {FULL!r}."
            )
    return tuple(found == SLIDING for found in types)


def rope_bases_by_kind(
    config: ConfigFile, parameters: Any, defaults: Mapping[str, float]
) -> dict[bool, float]:
    """Return the bases of sliding layers (True) and of full ones from `rope_parameters`.

    That has one object for each kind of layer, and `defaults` the base if the object has none.
    """
    if not isinstance(parameters, dict) or not set(parameters) <= {SLIDING, FULL}:
        config.fail("rope_parameters", f"an object of {SLIDING} and {FULL}", parameters)
    return {
        kind == SLIDING: rope_base(
            config,
            parameters.get(kind) or {},
            where=f"rope_parameters.{kind}",
            default=defaults[kind],
        )
        for kind in (SLIDING, FULL)
    }


def rope_base(
    config: ConfigFile, parameters: Any, *, where: str, default: float | None = None
) -> float:
    """Return `rope_theta` of one object of rotary settings; required without a default."""
    if not isinstance(parameters, dict):
        config.fail(where, "an object", parameters)
    unknown = sorted(set(parameters) - {"rope_type", "rope_theta"})
    if unknown or parameters.get("rope_type", "default") != "default":
        found = ", ".join(f"{key} = {parameters[key]!r}" for key in unknown or ["rope_type"])
        raise UnsupportedModelError(
            f"{config.path}: {where} has {found}; the compiler can express rope_type 'default' "
            "with a rope_theta and nothing else."
        )
    base: Any = parameters.get("rope_theta", default)
    if type(base) not in {int, float} or not 0 < base < float("inf"):
        config.fail(f"{where}.rope_theta", "a positive number", base)
    return float(base)
