"""Gemma 3 alone: outliers, and a row of zeros."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import Floats, changing, embed
from tests.model_compiler.goldens.gemma3_model import SHAPE, sequences, write_gemma3

IDS = sequences()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the model's folder, which the test may change."""
    return write_gemma3(tmp_path / "model")


def cosines(left: Floats, right: Floats) -> npt.NDArray[Any]:
    """Return the cosine of each pair of rows, all of length 1."""
    return (left * right).sum(axis=1)


@pytest.mark.parametrize("gain", [0.0, -0.999])
def test_int8_bears_outlier_channels(folder, compile_tiny, gain):
    """Activations of 1e5 in a few channels, amplified or suppressed by the norms, cost little."""
    channels = [3, 17, 40]
    with changing(folder) as tensors:
        table = tensors["embed_tokens.weight"]
        table[:, channels] = np.where(table[:, channels] > 0, 1e5, -1e5) / SHAPE.hidden**0.5
        for name, tensor in tensors.items():
            if name.endswith(("input_layernorm.weight", "pre_feedforward_layernorm.weight")):
                tensor[channels] = gain
    batch = [IDS[length] for length in (7, 33, 10)]
    exact = embed(compile_tiny(folder), batch)
    assert cosines(embed(compile_tiny(folder, Precision.INT8), batch), exact).min() > 0.99


def test_int8_bears_channels_that_gains_suppress(folder, compile_tiny):
    """Channels ten times as strong, of which all norms take a tenth, do not round others away."""
    channels, factor = [3, 17, 40], 10
    with changing(folder) as tensors:
        tensors["embed_tokens.weight"][:, channels] *= factor
        for name, tensor in tensors.items():
            if name.endswith("norm.weight") and tensor.shape == (SHAPE.hidden,):
                writes = "post_" in name
                gain = 1 + tensor[channels]
                tensor[channels] = (gain * factor if writes else gain / factor) - 1
    batch = list(IDS.values())
    exact = embed(compile_tiny(folder), batch)
    assert cosines(embed(compile_tiny(folder, Precision.INT8), batch), exact).min() > 0.975


def test_a_row_of_zeros_stays_finite(folder, compile_tiny):
    """A token with an embedding of zeros gives finite vectors."""
    with changing(folder) as tensors:
        tensors["embed_tokens.weight"][5] = 0
    ids = [np.array([5, 20, 5, 21, 5])]
    exact = embed(compile_tiny(folder), ids)
    assert cosines(embed(compile_tiny(folder, Precision.INT8), ids), exact).min() > 0.99
