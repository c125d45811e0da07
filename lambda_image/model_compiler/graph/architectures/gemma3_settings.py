"""The settings of Gemma 3 whose keys differ between versions of transformers."""

from collections.abc import Mapping
from typing import Any

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile

__all__ = ["rope_bases", "sliding_layers"]

SLIDING = "sliding_attention"
FULL = "full_attention"
#: The defaults of transformers' Gemma3TextConfig.
DEFAULT_ROPE_BASES = {SLIDING: 10_000.0, FULL: 1_000_000.0}
DEFAULT_SLIDING_PATTERN = 6


def sliding_layers(config: ConfigFile, layers: int) -> tuple[bool, ...]:
    """Return for each layer whether it slides: from a list, or all but every nth in older files."""
    types = config.optional("layer_types")
    pattern = DEFAULT_SLIDING_PATTERN
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        if config.has(key):
            pattern = config.integer(key)
        config.ignore(frozenset({key}))
    if types is None:
        return tuple(bool((layer + 1) % pattern) for layer in range(layers))
    if not isinstance(types, list) or len(types) != layers:
        config.fail("layer_types", f"a list of num_hidden_layers = {layers} names", types)
    for found in types:
        if found not in (SLIDING, FULL):
            raise UnsupportedModelError(
                f"{config.path}: layer_types has {found!r}; "
                f"the compiler can express {SLIDING!r} and {FULL!r}."
            )
    return tuple(found == SLIDING for found in types)


def rope_bases(config: ConfigFile) -> tuple[float, float]:
    """Return the bases of the rotary embedding in sliding and in full layers."""
    newer = config.optional("rope_parameters")
    if newer is None:
        config.require("rope_scaling", None)
        return (
            config.number("rope_local_base_freq", DEFAULT_ROPE_BASES[SLIDING]),
            config.number("rope_theta", DEFAULT_ROPE_BASES[FULL]),
        )
    # transformers prefers the newer key and ignores the older ones.
    config.ignore(frozenset({"rope_local_base_freq", "rope_theta"}))
    config.require("rope_scaling", None)
    if not isinstance(newer, dict) or not set(newer) <= {SLIDING, FULL}:
        config.fail("rope_parameters", f"an object of {SLIDING} and {FULL}", newer)
    sliding, full = (_rope_base(config, kind, newer.get(kind) or {}) for kind in (SLIDING, FULL))
    return sliding, full


def _rope_base(config: ConfigFile, kind: str, parameters: Mapping[str, Any]) -> float:
    where = f"rope_parameters.{kind}"
    unknown = sorted(set(parameters) - {"rope_type", "rope_theta"})
    if unknown or parameters.get("rope_type", "default") != "default":
        found = ", ".join(f"{key} = {parameters[key]!r}" for key in unknown or ["rope_type"])
        raise UnsupportedModelError(
            f"{config.path}: {where} has {found}; the compiler can express rope_type 'default' "
            "with a rope_theta and nothing else."
        )
    base = parameters.get("rope_theta", DEFAULT_ROPE_BASES[kind])
    if type(base) not in {int, float} or not 0 < base < float("inf"):
        config.fail(f"{where}.rope_theta", "a positive number", base)
    return float(base)
