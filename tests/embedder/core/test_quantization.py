"""The number formats of vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from embedder.core.quantization import INT8_SCALE, quantize

VECTORS = arrays(np.float32, (3, 16), elements=st.floats(-3, 3, width=32))


@given(VECTORS)
def test_int8_is_one_linear_scale(vectors):
    """The value is round(16·√d·x), cut to the range of int8; here 16·√16 = 64."""
    expected = [[max(-128, min(127, round(float(x) * 64))) for x in row] for row in vectors]
    assert quantize(vectors, "int8").tolist() == expected


@given(VECTORS)
def test_uint8_is_int8_and_128_and_binary_is_ubinary_minus_128(vectors):
    """The numbers are the same, shifted into the range of the other type."""
    for dtype, signed, shift in (("uint8", "int8", 128), ("binary", "ubinary", -128)):
        numbers = quantize(vectors, dtype)
        assert (numbers == quantize(vectors, signed).astype(int) + shift).all()
        assert numbers.dtype == (np.uint8 if dtype == "uint8" else np.int8)


@given(VECTORS)
def test_ubinary_holds_a_bit_for_each_sign(vectors):
    """A positive component is a 1, and the first component is the highest bit of the first byte."""
    for row, packed in zip(vectors, quantize(vectors, "ubinary"), strict=True):
        bits = "".join("1" if x > 0 else "0" for x in row)
        assert packed.tolist() == [int(bits[:8], 2), int(bits[8:], 2)]


def test_voyages_own_example():
    """In Voyage's documentation the bits 01101001 are 105 as ubinary and -23 as binary."""
    vector = np.array([[-0.1, 0.2, 0.3, -0.4, 0.5, -0.6, -0.7, 0.8]], dtype=np.float32)
    assert quantize(vector, "ubinary").tolist() == [[105]]
    assert quantize(vector, "binary").tolist() == [[-23]]


@pytest.mark.parametrize("dimensions", [128, 384, 768])
def test_int8_keeps_directions(dimensions):
    """A quantized vector keeps the direction, and dot products can be computed from it."""
    vectors = np.random.default_rng(7).standard_normal((50, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = quantize(vectors, "int8").astype(np.float64)
    cosines = (numbers * vectors).sum(axis=1) / np.linalg.norm(numbers, axis=1)
    assert cosines.min() > 0.9995
    scale = INT8_SCALE * np.sqrt(dimensions)
    np.testing.assert_allclose(numbers @ numbers.T / scale**2, vectors @ vectors.T, atol=0.01)
