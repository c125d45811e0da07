"""A family of models: how its `config.json` is read, and which of that file's keys are harmless."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.builder import GraphBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture(ABC):
    """The parsed configuration of a model."""

    #: The family's `model_type`.
    name: str
    #: The number of rows of the embedding table.
    vocabulary_size: int
    #: The width of the last hidden state.
    hidden_size: int
    #: The number of positions, which limits the length of an input in tokens.
    max_positions: int

    @abstractmethod
    def build(self, builder: GraphBuilder, weights: Weights) -> str:
        """Add the encoder to a graph that has the inputs `input_ids` and `attention_mask`.

        Both are int64 [batch, tokens]. Returns the name of the last hidden state, float32
        [batch, tokens, hidden_size].
        """

    def project(self, builder: GraphBuilder, value: str) -> str:  # noqa: ARG002 - for some families
        """Add a linear layer at the end that is the same before and after a linear pooling.

        Takes float32 [..., width of `build`] to [..., hidden_size], which most families have from
        the start.
        """
        return value


def require_encoder(config: ConfigFile, *, encoder_decoder: bool = False) -> None:
    """Check the keys of all families that would make the model another one than an encoder.

    Args:
        config: The file.
        encoder_decoder: Whether the family's encoder also has files with a decoder.
    """
    for key in ("is_decoder", "add_cross_attention"):
        config.require(key, False, None)
    config.require("is_encoder_decoder", False, None, *((True,) if encoder_decoder else ()))
    config.require("pruned_heads", {}, None)


def has_own_code(config: ConfigFile, *names: str, key: str = "AutoModel") -> bool:
    """Return whether a folder names code of its own; that of `key` must have one of the names.

    Raises:
        UnsupportedModelError: If the class is another one.
    """
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
