"""A family of models, and the settings that the `config.json` of several families have in common.

Since version 5, transformers writes which layers attend within a window (`layer_types`) and the
bases of the rotary embedding (`rope_parameters`) in one form for all families.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.bases.encoder import Architecture

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
    for layer_type in types:
        if layer_type not in (SLIDING, FULL):
            raise UnsupportedModelError(
                f"{config.path}: layer_types has {layer_type!r}; "
                f"the compiler can express {SLIDING!r} and {FULL!r}."
            )
    return tuple(layer_type == SLIDING for layer_type in types)


def rope_bases_by_kind(
    config: ConfigFile, parameters: Any, defaults: Mapping[str, float]
) -> dict[bool, float]:
    """Return the bases of sliding layers (True) and of full ones from `rope_parameters`.

    That has one object for each kind of layer, and `defaults` the base if the object has none.
    """
    if not isinstance(parameters, dict) or not set(parameters) <= {SLIDING, FULL}:
        config.fail("rope_parameters", f"an object of {SLIDING} and {FULL}", parameters)
    return {
        layer_type == SLIDING: rope_base(
            config,
            parameters.get(layer_type) or {},
            where=f"rope_parameters.{layer_type}",
            default=defaults[layer_type],
        )
        for layer_type in (SLIDING, FULL)
    }


def rope_base(
    config: ConfigFile, parameters: Any, *, where: str, default: float | None = None
) -> float:
    """Return `rope_theta` of one object of rotary settings; required without a default."""
    if not isinstance(parameters, dict):
        config.fail(where, "an object", parameters)
    unknown = sorted(set(parameters) - {"rope_type", "rope_theta"})
    if unknown or parameters.get("rope_type", "default") != "default":
        settings = ", ".join(f"{key} = {parameters[key]!r}" for key in unknown or ["rope_type"])
        raise UnsupportedModelError(
            f"{config.path}: {where} has {settings}; the compiler can express rope_type 'default' "
            "with a rope_theta and nothing else."
        )
    base: Any = parameters.get("rope_theta", default)
    if type(base) not in {int, float} or not 0 < base < float("inf"):
        config.fail(f"{where}.rope_theta", "a positive number", base)
    return float(base)


def require_encoder(config: ConfigFile, *, encoder_decoder: bool = False) -> None:
    """Check the keys of all families that would make the model another one than an encoder."""
    for key in ("is_decoder", "add_cross_attention"):
        config.require(key, False, None)
    config.require("is_encoder_decoder", False, None, *((True,) if encoder_decoder else ()))
    config.require("pruned_heads", {}, None)


def has_own_code(config: ConfigFile, *names: str, key: str = "AutoModel") -> bool:
    """Return whether a folder names code of its own; that of `key` must have one of the names."""
    code = config.optional("auto_map")
    if code is None:
        return False
    model = code.get(key) if isinstance(code, dict) else None
    if not isinstance(model, str) or model.rpartition(".")[2] not in names:
        raise UnsupportedModelError(
            f"{config.path}: auto_map.{key} must name {' or '.join(names)}; found {model!r}."
        )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A `model_type`: its parser, and the keys of its files that change nothing."""

    #: Reads the keys that change vectors, and rejects their values that the graph cannot express.
    #: Raises an UnsupportedModelError for those, and a SourceError for a value that is missing or
    #: wrong.
    parse: Callable[[ConfigFile], Architecture]
    #: The other keys that the family's files have: by reason, why they change no vector. Those of
    #: all families are in `files/config.py`. A key that is nowhere is refused by name.
    harmless: Mapping[str, str] = field(default_factory=dict)
    #: Whether the code that `auto_map` names computes the same as the compiler's graph.
    own_code: bool = False
    #: Whether the family's files are of an encoder with a decoder, which is left out.
    encoder_decoder: bool = False
