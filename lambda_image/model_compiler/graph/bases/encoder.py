"""The base of the classes that build the graphs of encoders, and the parts that they share."""

import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, final

import numpy as np

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import NONE, ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.attention import whole_blocks
from model_compiler.graph.builder import MICROSOFT, GraphBuilder
from model_compiler.graph.quantization import Floats, Rows, ZeroPoints, linear, quantize


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The parsed configuration of a model."""

    #: The class of the family's encoder.
    encoder: "Callable[[Any, GraphBuilder, Weights], Encoder[Any]]"
    #: The family's `model_type`.
    name: str
    #: The number of rows of the embedding table.
    vocabulary_size: int
    #: The width of the last hidden state.
    hidden_size: int
    intermediate_size: int
    activation: str
    norm_epsilon: float
    #: The number of positions, which limits the length of an input in tokens.
    max_positions: int
    #: The weight of a linear layer at the end, which makes vectors of `hidden_size`; empty for a
    #: family that has them from the start.
    projection: str = ""

    def build(self, builder: GraphBuilder, weights: Weights) -> "Hidden":
        """Add the encoder to a graph that has the inputs `input_ids` and `attention_mask`.

        Both are int64 [batch, tokens].
        """
        encoder = self.encoder(self, builder, weights)
        return Hidden(encoder.build(), encoder.finish)


class Hidden(NamedTuple):
    """The last hidden state of an encoder, float32 [batch, tokens, width of the layers]."""

    value: str
    #: Takes it, or its mean over tokens with shares of the sum 1, to float32 [..., hidden_size]:
    #: what one row for each text costs less.
    finish: Callable[[str], str] = str

    def complete(self) -> str:
        """Return the hidden state of all tokens, float32 [batch, tokens, hidden_size]."""
        return self.finish(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedConfig(Architecture):
    """The configuration of an encoder with layers in which a token attends within a window."""

    heads: int
    head_size: int
    #: Number of tokens to each side that a token attends to in a sliding layer.
    reach: int
    #: Whether the attention of each layer is limited to the window.
    sliding: tuple[bool, ...]
    #: Bases of the rotary embedding of layers that slide (True) and of the others.
    rope_bases: Mapping[bool, float]


Config = TypeVar("Config", bound=Architecture)

#: The reason why a head's tensors are harmless; see `Weights.done`.
NO_HEAD = "no module after the encoder reads this head"
#: Those of all families with rotary positions.
ROTARY_BUFFERS = {"computed from rope_theta of config.json": "*rotary_emb*inv_freq"}


class Encoder(ABC, Generic[Config]):
    """Builds the graph of one encoder.

    Values of tokens are float32 [batch, tokens, width], with heads side by side in `width`.
    """

    #: The name of a weight that every encoder of the family has.
    first_weight: ClassVar[str]
    #: The encoder's tensors that change no vector, by reason; see `Weights.done`.
    harmless: ClassVar[Mapping[str, str]] = NONE

    def __init__(self, config: Config, builder: GraphBuilder, weights: Weights) -> None:
        self._config = config
        self._builder = builder
        self._weights = weights
        self._prefix = weights.prefix(self.prefixes, self.first_weight)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that its weights may have.

        A checkpoint with a head, for example that of a language model, has the encoder one level
        down.
        """
        return ("", "model.")

    @property
    def heads(self) -> str:
        """The tensors of heads, outside of the encoder, with `*` for parts of names.

        A checkpoint has them only if the encoder's own names have a prefix.
        """
        return ""

    @final
    def build(self) -> str:
        """Add the encoder, and check that no tensor is left; returns the last hidden state."""
        hidden = self._hidden_state()
        self._check_all_used()
        return hidden

    def finish(self, value: str) -> str:
        """Add the rest for vectors of tokens, or of texts: see `Hidden.finish`."""
        projection = self._config.projection
        return self._builder.op.MatMul(value, projection) if projection else value

    @abstractmethod
    def _hidden_state(self) -> str:
        """Add the encoder, and take each of its tensors; returns the last hidden state."""

    def _begin(self, ids: str) -> None:
        """Add what all int8 products need; `ids` is int64 [batch, tokens]."""
        self._zeros = ZeroPoints(self._builder, ids) if self._builder.int8 else None

    def _quantized(self, value: str, width: int) -> Rows:
        return quantize(self._builder, value, width=width, zeros=self._zeros)

    def _linear_with_outliers(
        self,
        value: str,
        weight: Floats,
        name: str,
        outliers: int = 0,
        *,
        lowest: float | None = None,
        added: Sequence[str] = (),
    ) -> str:
        return linear(
            self._builder,
            value,
            weight,
            name=name,
            outliers=outliers,
            zeros=self._zeros,
            lowest=lowest,
            added=added,
        )

    def _by_root_mean_square(self, value: str, gain: str) -> str:
        return self._builder.root_mean_square_norm(value, gain, epsilon=self._config.norm_epsilon)

    def _rotated(
        self, value: str, rope: tuple[str, str], *, heads: int, head_size: int, places: str = ""
    ) -> str:
        """Rotate heads side by side, by int64 `places` [batch, tokens]; by default from 0 on."""
        return self._builder.microsoft.RotaryEmbedding(
            value, places or self._int64(0), *rope, num_heads=heads, rotary_embedding_dim=head_size
        )

    def _repeated(self, value: str, times: int, head_size: int, *, heads: int = -1) -> str:
        """Repeat each of the key or value heads for the query heads that share it."""
        op, int64 = self._builder.op, self._int64
        apart = op.Reshape(value, int64(0, 0, heads, 1, head_size))
        return op.Reshape(op.Expand(apart, int64(1, 1, 1, times, 1)), int64(0, 0, -1))

    def _take(self, name: str, *shape: int) -> Floats:
        return self._weights.take(self._prefix + name, *shape)

    def _check_all_used(self) -> None:
        """Check that each tensor was used, or is harmless by its name; see `Weights.done`."""
        prefix = glob.escape(self._prefix)
        own = {
            reason: " ".join(f"{prefix}{name}" for name in names.split())
            for reason, names in self.harmless.items()
        }
        self._weights.done({**own, NO_HEAD: self.heads if self._prefix else ""})

    def _int64(self, *values: int) -> str:
        return self._builder.int64(*values)


#: The operator of each function, with its domain and its attributes. GELU with the error function
#: and with a tangent differ by up to 5e-4. ONNX Runtime's QuickGelu with a factor of 1 multiplies
#: by the sigmoid in one pass.
_ACTIVATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gelu": ("", "Gelu", {}),
    "gelu_fast": (MICROSOFT, "FastGelu", {}),
    "gelu_new": (MICROSOFT, "FastGelu", {}),
    "gelu_python": ("", "Gelu", {}),
    "gelu_pytorch_tanh": (MICROSOFT, "FastGelu", {}),
    "relu": ("", "Relu", {}),
    "silu": (MICROSOFT, "QuickGelu", {"alpha": 1.0}),
    "swish": (MICROSOFT, "QuickGelu", {"alpha": 1.0}),
}


def read_activation(config: ConfigFile, key: str) -> str:
    """Read the name of an activation function; raises an UnsupportedModelError for others."""
    name = config.string(key)
    if name not in _ACTIVATIONS:
        raise UnsupportedModelError(
            f"{config.path}: {key} {name!r} is not a supported activation; "
            f"the compiler supports {', '.join(_ACTIVATIONS)}."
        )
    return name


#: The activations that are close to GELU.
GELU = frozenset({"gelu", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh"})


def quick_activation(builder: GraphBuilder, name: str) -> str:
    """Return the function for a layer: in int8 the GELU with a tangent in place of all.

    It differs by up to 5e-4 and needs half the instructions.
    """
    return "gelu_fast" if builder.quantizes and name in GELU else name


#: The operators that also add a bias, by those that do not.
_WITH_BIAS = {"Gelu": "BiasGelu", "FastGelu": "FastGelu"}


def activate(builder: GraphBuilder, value: str, name: str, *, bias: str = "") -> str:
    """Apply the function to each component of a value, to which a `bias` is added first."""
    domain, operator, attributes = _ACTIVATIONS[name]
    if bias and operator in _WITH_BIAS:
        return builder.node(_WITH_BIAS[operator], value, bias, domain=MICROSOFT)
    if bias:
        value = builder.op.Add(value, bias)
    return builder.node(operator, value, domain=domain, **attributes)


def rotary_tables(
    builder: GraphBuilder,
    *,
    base: float,
    head_size: int,
    positions: int,
    name: str,
    stretch: float = 1.0,
    by_row: bool = False,
) -> tuple[str, str]:
    """Add cosines and sines, float32 [positions, head_size / 2], in transformers' precision.

    `base` is that of the angles' wavelengths, `rope_theta`, and `stretch` by how much all of them
    are longer. `by_row` is for tables of which a run should read the rows of its text alone; see
    `GraphBuilder.weight`.
    """
    exponents = np.arange(0, head_size, 2, dtype=np.float64) / head_size
    frequencies = (1.0 / base**exponents).astype(np.float32) / np.float32(stretch)
    angles = np.outer(np.arange(positions, dtype=np.float32), frequencies)
    return (
        builder.weight(f"{name}.cosines", np.cos(angles), by_row=by_row),
        builder.weight(f"{name}.sines", np.sin(angles), by_row=by_row),
    )


def rotary_tables_by_kind(
    builder: GraphBuilder, config: WindowedConfig, *, by_row: bool = False
) -> dict[bool, tuple[str, str]]:
    """Add the tables of sliding layers (True) and of full ones; see `rotary_tables`.

    A kind without a layer has no tables.
    """
    return {
        sliding: rotary_tables(
            builder,
            base=config.rope_bases[sliding],
            head_size=config.head_size,
            positions=whole_blocks(config.max_positions),
            name="rope.sliding" if sliding else "rope.full",
            by_row=by_row,
        )
        for sliding in sorted(set(config.sliding))
    }
