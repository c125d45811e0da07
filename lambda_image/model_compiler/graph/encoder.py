"""The base of the classes that build the graphs of encoders."""

from typing import ClassVar, Generic, TypeVar

import numpy as np

from model_compiler.files.weights import Weights
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import (
    Channels,
    Floats,
    Precision,
    Rows,
    linear_with_outliers,
    quantize,
    zero_points,
)

__all__ = ["Encoder"]

Config = TypeVar("Config")


class Encoder(Generic[Config]):
    """Builds the graph of one encoder.

    Args:
        config: The family's configuration.
        builder: The graph.
        weights: The model's weights.
        precision: How the weights of linear layers are stored.

    Raises:
        SourceError: If the weights are not an encoder's.
    """

    #: The name of a weight that every encoder of the family has.
    first_weight: ClassVar[str]

    def __init__(
        self, config: Config, builder: GraphBuilder, weights: Weights, precision: Precision
    ) -> None:
        self._config = config
        self._builder = builder
        self._weights = weights
        self._precision = precision
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
        self._zeros = zero_points(self._builder, ids, self._precision)

    def _quantized(self, value: str, width: int) -> Rows:
        return quantize(
            self._builder, value, width=width, precision=self._precision, zeros=self._zeros
        )

    def _linear_with_outliers(
        self, value: str, weight: Floats, name: str, channels: Channels | None = None
    ) -> str:
        return linear_with_outliers(
            self._builder,
            value,
            weight,
            channels,
            name=name,
            precision=self._precision,
            zeros=self._zeros,
        )

    def _take(self, name: str, *shape: int) -> Floats:
        return self._weights.take(self._prefix + name, *shape)

    def _int64(self, *values: int) -> str:
        return self._builder.constant(values, np.int64)
