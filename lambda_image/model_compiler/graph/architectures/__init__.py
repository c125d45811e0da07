"""The families of models that the compiler can express, by the `model_type` of their `config.json`.

An architecture is a module whose `parse` turns a `config.json` into a typed, frozen configuration
and refuses what it does not know, and that configuration's `build` turns weights into a graph that
ends in the last hidden state.
"""

from collections.abc import Callable
from typing import Protocol

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.architectures import bert, gemma3
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Precision

__all__ = ["Architecture", "parse"]


class Architecture(Protocol):
    """One model's parsed configuration."""

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
        """How many token ids the model has a row for."""
        ...

    @property
    def max_positions(self) -> int:
        """The longest input, in tokens, that the model has positions for."""
        ...

    def build(self, builder: GraphBuilder, weights: Weights, precision: Precision) -> str:
        """Add the encoder to a graph that has the inputs `input_ids` and `attention_mask`.

        Both are int64 [batch, tokens]. Returns the name of the last hidden state, float32
        [batch, tokens, hidden_size].
        """
        ...


_PARSERS: dict[str, Callable[[ConfigFile], Architecture]] = {
    "bert": bert.parse,
    "gemma3_text": gemma3.parse,
}


def parse(config: ConfigFile) -> Architecture:
    """Turn a `config.json` into the configuration of its family.

    Raises:
        UnsupportedModelError: if the family, or a part of it, is not one that the compiler knows.
        SourceError: if a value is missing or wrong.
    """
    model_type = config.string("model_type")
    if model_type not in _PARSERS:
        raise UnsupportedModelError(
            f"{config.path}: model_type {model_type!r} is not an architecture that the compiler "
            f"knows; it knows {', '.join(sorted(_PARSERS))}."
        )
    return _PARSERS[model_type](config)
