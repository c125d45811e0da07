"""The base of the classes that build the graphs of encoders, and the parts that they share."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph.builder import MICROSOFT, GraphBuilder
from model_compiler.graph.quantization import Channels, Floats, Rows, linear, quantize, zero_points

Config = TypeVar("Config")


class Encoder(Generic[Config]):
    """Builds the graph of one encoder.

    Args:
        config: The family's configuration.
        builder: The graph.
        weights: The model's weights.

    Raises:
        SourceError: If the weights are not an encoder's.
    """

    #: The name of a weight that every encoder of the family has.
    first_weight: ClassVar[str]

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

    def _begin(self, ids: str) -> None:
        """Add what all int8 products need; `ids` is int64 [batch, tokens]."""
        self._zeros = zero_points(self._builder, ids)

    def _quantized(self, value: str, width: int) -> Rows:
        return quantize(self._builder, value, width=width, zeros=self._zeros)

    def _linear_with_outliers(
        self, value: str, weight: Floats, name: str, channels: Channels | None = None
    ) -> str:
        return linear(self._builder, value, weight, name=name, channels=channels, zeros=self._zeros)

    def _take(self, name: str, *shape: int) -> Floats:
        return self._weights.take(self._prefix + name, *shape)

    def _int64(self, *values: int) -> str:
        return self._builder.constant(values, np.int64)


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
    """Read the name of an activation function.

    Raises:
        UnsupportedModelError: If the compiler does not support it.
        SourceError: If it is missing or not a string.
    """
    name = config.string(key)
    if name not in _ACTIVATIONS:
        raise UnsupportedModelError(
            f"{config.path}: {key} {name!r} is not a supported activation; "
            f"the compiler supports {', '.join(_ACTIVATIONS)}."
        )
    return name


def activate(builder: GraphBuilder, value: str, name: str) -> str:
    """Apply the function to each component of a value."""
    domain, operator, attributes = _ACTIVATIONS[name]
    return builder.node(operator, value, domain=domain, **attributes)


def add_and_normalize(
    builder: GraphBuilder, value: str, skip: str, gain: str, shift: str, *, epsilon: float
) -> str:
    """Add two values and normalize each row of the sum.

    Not with SkipLayerNormalization, ONNX Runtime's operator for both steps: its kernel adds up a
    row one component at a time. For 256 rows of 384 it takes 422 µs and these two nodes 56, and its
    error is two to ten times as large.
    """
    return builder.op.LayerNormalization(
        builder.op.Add(value, skip), gain, shift, axis=-1, epsilon=epsilon
    )


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

    Args:
        builder: The graph.
        base: The base of the angles' wavelengths, `rope_theta`.
        head_size: Width of a head; even.
        positions: The number of positions.
        name: The start of the tables' names.
        stretch: By how much all wavelengths are longer.
        by_row: Whether the tables are so long that a run should read only the rows of its text; see
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
    builder: GraphBuilder,
    bases: Mapping[bool, float],
    *,
    kinds: Iterable[bool],
    head_size: int,
    positions: int,
    by_row: bool = False,
) -> dict[bool, tuple[str, str]]:
    """Add the tables of sliding layers and those of full layers; see `rotary_tables`.

    Args:
        builder: The graph.
        bases: The base of full layers (False) and that of sliding ones (True).
        kinds: For each layer, whether it is a sliding one. A kind without a layer has no tables.
        head_size: Width of a head; even.
        positions: The number of positions.
        by_row: Whether a run should read only the rows of its text.
    """
    return {
        sliding: rotary_tables(
            builder,
            base=bases[sliding],
            head_size=head_size,
            positions=positions,
            name="rope.sliding" if sliding else "rope.full",
            by_row=by_row,
        )
        for sliding in sorted(set(kinds))
    }
