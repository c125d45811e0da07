"""The base of small random models: their weights, and their definition in NumPy.

The weights come from a seeded source, so that the script that makes golden values and the tests
that are held to them build the same folders. They have the same bits with every version of numpy.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

Array = npt.NDArray[np.float64]


def normal(
    source: np.random.RandomState | np.random.Generator,
    *shape: int,
    scale: float = 0.1,
    mean: float = 0.0,
) -> npt.NDArray[np.float32]:
    """Return values of a normal distribution."""
    return (mean + scale * source.standard_normal(shape)).astype(np.float32)


class RandomWeights(dict[str, npt.NDArray[Any]]):
    """The tensors of a small model by their names, drawn in the order of the calls.

    Matrices have the scale `scale`, or without one that of the root of their inputs; biases
    `shift`; and gains, around 1, `gain`.
    """

    def __init__(
        self,
        source: int | np.random.RandomState,
        *,
        scale: float | None = 0.3,
        shift: float = 0.1,
        gain: float = 0.1,
    ) -> None:
        super().__init__()
        self._source = np.random.default_rng(source) if isinstance(source, int) else source
        self._scale, self._shift, self._gain = scale, shift, gain

    def draw(self, name: str, *shape: int, scale: float = 0.1, mean: float = 0.0) -> None:
        """Draw a tensor of this name."""
        self[name] = normal(self._source, *shape, scale=scale, mean=mean)

    def table(self, name: str, rows: int, width: int, *, scale: float = 1.0) -> None:
        """Draw the table of an embedding."""
        self.draw(f"{name}.weight", rows, width, scale=scale)

    def linear(
        self, name: str, outputs: int, inputs: int, *, scale: float = 0, bias: bool = True
    ) -> None:
        """Draw a linear layer."""
        scale = scale or self._scale or inputs**-0.5
        self.draw(f"{name}.weight", outputs, inputs, scale=scale)
        if bias:
            self.draw(f"{name}.bias", outputs, scale=self._shift)

    def norm(self, name: str, width: int, *, bias: bool = True) -> None:
        """Draw a normalization."""
        self.draw(f"{name}.weight", width, scale=self._gain, mean=1)
        if bias:
            self.draw(f"{name}.bias", width, scale=self._shift)


class Definition:
    """The operations of an encoder as its authors define them, on a folder's weights in float64."""

    def __init__(self, folder: Path, *, heads: int, epsilon: float) -> None:
        self.weights: dict[str, Array] = {
            name: tensor.astype(np.float64)
            for name, tensor in load_file(folder / "model.safetensors").items()
        }
        self._heads, self._epsilon = heads, epsilon

    def linear(self, value: Array, name: str) -> Array:
        """Apply a linear layer, which need not have a bias."""
        return value @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0)

    def norm(self, value: Array, name: str) -> Array:
        """Apply a LayerNorm."""
        centered = value - value.mean(axis=-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + self._epsilon)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def by_head(self, value: Array) -> Array:
        """Split [tokens, width] into [heads, tokens, size]."""
        return value.reshape(len(value), self._heads, -1).swapaxes(0, 1)

    @staticmethod
    def attend(query: Array, key: Array, value: Array, bias: Array | float = 0.0) -> Array:
        """Return the attention of [heads, tokens, size] as [tokens, width]."""
        scores = query @ key.swapaxes(1, 2) / math.sqrt(query.shape[-1]) + bias
        mixed = (softmax(scores) @ value).swapaxes(0, 1)
        return mixed.reshape(len(mixed), -1)


def gelu(value: Array) -> Array:
    return value * (1 + np.vectorize(math.erf)(value / math.sqrt(2))) / 2


def softmax(value: Array) -> Array:
    """Return the shares of the last axis."""
    powers = np.exp(value - value.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def mean_of_length_1(hidden: Array) -> Array:
    """Return the mean of the tokens' vectors, divided by its length."""
    vector: Array = hidden.mean(axis=0)
    return vector / np.linalg.norm(vector)
