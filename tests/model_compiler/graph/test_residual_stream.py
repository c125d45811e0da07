"""The basis of the residual stream in int8, and its purpose."""

import numpy as np
import pytest

from embedder.core.engine import Engine
from model_compiler.graph.bases.pre_norm import spread
from model_compiler.graph.builder import Precision
from model_compiler.graph.quantization import centered, large_channels, quantize_rows
from tests.model_compiler.conftest import changing
from tests.model_compiler.goldens.llama_model import TEXTS, write_llama
from tests.model_compiler.goldens.modernbert_model import write_modernbert

#: Channels that are far larger than the others, in every token.
CHANNELS = {3: 60.0, 40: -25.0}
#: The weights that read the stream, which a trained model has made small where it is large.
READERS = tuple(
    f"{name}.weight"
    for name in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "Wqkv", "Wi")
)


@pytest.mark.parametrize(("width", "block"), [(48, 16), (64, 64), (6, 2), (5, 1)])
def test_the_basis_keeps_lengths_and_products(width, block):
    """It is orthogonal, so a product of spread rows is the product of the rows."""
    random = np.random.RandomState(0)
    left, right = random.standard_normal((2, 300, width)).astype(np.float32)
    product = spread(left, block) @ spread(right, block).T
    np.testing.assert_allclose(product, left @ right.T, atol=1e-4)
    matrix = spread(np.eye(width, dtype=np.float32), block)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(width), atol=1e-6)


def test_a_large_channel_is_spread_over_its_block():
    """A single channel of 16 becomes 16 channels of 4, and nothing in the other blocks."""
    rows = np.zeros((1, 48), np.float32)
    rows[0, 20] = 16
    channels = np.abs(spread(rows, 16))
    np.testing.assert_allclose(channels[0, 16:32], 4)
    assert not channels[0, :16].any()
    assert not channels[0, 32:].any()


def test_a_centered_weight_has_the_products_of_normalized_rows():
    """Rows of the sum 0 have the same products, of which the scale of each output is smaller."""
    random = np.random.RandomState(0)
    weight = random.standard_normal((50, 20)).astype(np.float32) + 1
    weight[:, -2:] *= 100
    rows = random.standard_normal((30, 20)).astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    near = centered(weight, 2)
    np.testing.assert_allclose(rows @ near.T, rows @ weight.T, rtol=0, atol=1e-3)
    assert (quantize_rows(near[:, :-2])[1] <= quantize_rows(weight[:, :-2])[1]).all()


def test_channels_that_one_gain_or_one_layer_makes_large_are_found():
    """Of 96 channels two are multiplied in float32, in their order."""
    random = np.random.RandomState(0)
    gains = 1 + random.standard_normal((2, 96)).astype(np.float32) / 10
    weights = random.standard_normal((3, 96, 8)).astype(np.float32)
    gains[0, 50] *= 20
    weights[2, 7] *= 20
    assert large_channels(gains, weights).tolist() == [7, 50]


@pytest.mark.parametrize("gain", [1.0, 0.03])
@pytest.mark.parametrize("family", ["qwen3", "modernbert"])
def test_large_channels_cost_the_others_little(tmp_path, compile_tiny, family, gain):
    """Channels 25 and 60 times larger than the others, amplified or not, leave 0.99."""
    folder = (write_llama if family == "qwen3" else write_modernbert)(tmp_path / "model")
    channels = list(CHANNELS)
    with changing(folder) as tensors:
        if family == "qwen3":
            tensors["embed_tokens.weight"][:, channels] = list(CHANNELS.values())
        else:
            table = tensors["embeddings.tok_embeddings.weight"]
            table[:, channels] = np.sign(table[:, channels])
            tensors["embeddings.norm.weight"][channels] = list(CHANNELS.values())
        for name, tensor in tensors.items():
            if name.startswith("layers.") and name.endswith(READERS):
                tensor[:, channels] *= 0.03 / gain
            if name.endswith(("layernorm.weight", "attn_norm.weight", "mlp_norm.weight")):
                tensor[channels] *= gain
            if name in ("norm.weight", "final_norm.weight"):
                tensor[channels] *= 0.03
    texts = list(TEXTS.values())
    exact, near = (
        Engine.load(compile_tiny(folder, precision), truncate="right").embed(texts).vectors
        for precision in (Precision.FP32, Precision.INT8)
    )
    assert (exact * near).sum(axis=1).min() > 0.99
