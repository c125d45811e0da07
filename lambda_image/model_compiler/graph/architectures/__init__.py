"""The supported architectures, by the `model_type` of their `config.json`.

The `parse` function of an architecture's module reads a `config.json` into a typed, frozen
configuration and rejects unknown settings. The `build` method of that configuration turns weights
into a graph that ends in the last hidden state.
"""

from collections.abc import Callable
from typing import Protocol

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.architectures import bert, gemma3, modernbert, nomic_bert, qwen3
from model_compiler.graph.builder import GraphBuilder

__all__ = ["Architecture", "parse"]


class Architecture(Protocol):
    """The parsed configuration of a model."""

    @property
    def name(self) -> str:
        """The family's `model_type`."""
        ...

    @property
    def hidden_size(self) -> int:
        """The width of the last hidden state."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """The number of rows of the embedding table."""
        ...

    @property
    def max_positions(self) -> int:
        """The number of positions, which limits the length of an input in tokens."""
        ...

    def build(self, builder: GraphBuilder, weights: Weights) -> str:
        """Add the encoder to a graph that has the inputs `input_ids` and `attention_mask`.

        Both are int64 [batch, tokens]. Returns the name of the last hidden state, float32
        [batch, tokens, hidden_size].
        """
        ...


_PARSERS: dict[str, Callable[[ConfigFile], Architecture]] = {
    **dict.fromkeys(bert.NAMES, bert.parse),
    "gemma3_text": gemma3.parse,
    "modernbert": modernbert.parse,
    "nomic_bert": nomic_bert.parse,
    "qwen3": qwen3.parse,
}
#: Architectures whose own code, which `auto_map` names, computes the same as the compiler's graph.
OWN_CODE = frozenset({"nomic_bert"})


def parse(config: ConfigFile) -> Architecture:
    """Parse a `config.json` with the parser of its architecture.

    Raises:
        UnsupportedModelError: If the compiler does not know the architecture or a setting.
        SourceError: If a value is missing or wrong.
    """
    model_type = config.string("model_type")
    if config.has("auto_map") and model_type not in OWN_CODE:
        raise UnsupportedModelError(
            f"{config.path}: auto_map names code of the model's own, for which other programs need "
            f"trust_remote_code. The compiler never runs such code, and model_type {model_type!r} "
            "without it may be another model."
        )
    if model_type not in _PARSERS:
        raise UnsupportedModelError(
            f"{config.path}: model_type {model_type!r} is not a supported architecture; "
            f"the compiler supports {', '.join(sorted(_PARSERS))}."
        )
    for key in ("is_decoder", "add_cross_attention", "is_encoder_decoder"):
        config.require(key, False, None)
    config.require("pruned_heads", {}, None)
    return _PARSERS[model_type](config)
