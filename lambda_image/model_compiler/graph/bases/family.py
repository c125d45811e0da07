"""A family of models: how its `config.json` is read, and which of that file's keys are harmless."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.bases.encoder import Architecture


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
    """What the compiler knows of a `model_type`."""

    #: Reads the keys that change vectors, and rejects their values that the graph cannot express.
    #: Raises an UnsupportedModelError for those, and a SourceError for a value that is missing or
    #: wrong.
    parse: Callable[[ConfigFile], Architecture]
    #: The other keys that the family's files have: by reason, why they change no vector. Those of
    #: all families are in `files/harmless.py`. A key that is nowhere is refused by name.
    harmless: Mapping[str, str] = field(default_factory=dict)
    #: Whether the code that `auto_map` names computes the same as the compiler's graph.
    own_code: bool = False
    #: Whether the family's files are of an encoder with a decoder, which is left out.
    encoder_decoder: bool = False
