"""The settings of ModernBERT that its graph does not use, or whose keys differ between versions."""

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.layer_settings import (
    FULL,
    SLIDING,
    listed_layers,
    rope_bases_by_kind,
)

__all__ = ["rope_bases", "sliding_layers"]

#: The defaults of transformers' ModernBertConfig.
DEFAULT_FULL_EVERY = 3
DEFAULT_ROPE_BASES = {SLIDING: 10_000.0, FULL: 160_000.0}


def sliding_layers(config: ConfigFile, layers: int) -> tuple[bool, ...]:
    """Return for each layer whether it slides: from a list, or all but every nth in older files."""
    listed = listed_layers(config, layers)
    every = config.integer("global_attn_every_n_layers", DEFAULT_FULL_EVERY)
    return listed or tuple(bool(layer % every) for layer in range(layers))


def rope_bases(config: ConfigFile) -> tuple[float, float]:
    """Return the bases of the rotary embedding in sliding and in full layers."""
    bases = {}
    for kind, key in ((SLIDING, "local_rope_theta"), (FULL, "global_rope_theta")):
        if not config.has(key):  # Versions of transformers disagree about null.
            config.require(key, "a positive number")
        bases[kind] = config.number(key, DEFAULT_ROPE_BASES[kind])
    config.require("rope_scaling", None)
    newer = config.optional("rope_parameters")
    return rope_bases_by_kind(config, {} if newer is None else newer, bases)
