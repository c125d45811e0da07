"""The settings of Gemma 3 whose keys differ between versions of transformers."""

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.layer_settings import (
    FULL,
    SLIDING,
    listed_layers,
    rope_bases_by_kind,
)

__all__ = ["rope_bases", "sliding_layers"]

#: The defaults of transformers' Gemma3TextConfig.
DEFAULT_ROPE_BASES = {SLIDING: 10_000.0, FULL: 1_000_000.0}
DEFAULT_SLIDING_PATTERN = 6


def sliding_layers(config: ConfigFile, layers: int) -> tuple[bool, ...]:
    """Return for each layer whether it slides: from a list, or all but every nth in older files."""
    listed = listed_layers(config, layers)
    pattern = DEFAULT_SLIDING_PATTERN
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        if config.has(key):
            pattern = config.integer(key)
        config.ignore(frozenset({key}))
    if listed is None:
        return tuple(bool((layer + 1) % pattern) for layer in range(layers))
    return listed


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
    return rope_bases_by_kind(config, newer, DEFAULT_ROPE_BASES)
