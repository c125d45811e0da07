"""Many floats as JSON at once."""

import json

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from embedder.float_text import NUMBER_BYTES, write_rows

Vectors = npt.NDArray[np.float32]
ODD = [0.0, -0.0, 1.0, -1.0, 0.99999994, -0.99999994, 0.1, 2e-5, 1.9999999e-5, 2**-16, 1e-9]
FLOATS = st.one_of(
    st.floats(-1, 1, width=32),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([float(np.float32(value)) for value in ODD]),
)


def read(rows: list[bytes]) -> Vectors:
    """Read rows back as a JSON reader does, and round them to float32."""
    return np.array([json.loads(row) for row in rows], dtype=np.float64).astype(np.float32)


@given(arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=FLOATS))
def test_every_float_comes_back_to_the_last_bit(vectors: Vectors) -> None:
    """Small and large, and the sign of zero."""
    back = read(write_rows(vectors))
    np.testing.assert_array_equal(back.view(np.uint32), vectors.view(np.uint32))


@pytest.mark.parametrize("dimension", [8, 384, 768])
def test_vectors_come_back_to_the_last_bit(dimension: int) -> None:
    """Of more rows than are taken at once, and a number that the blocks do not divide."""
    vectors = np.random.default_rng(5).standard_normal((4001 // (dimension // 8), dimension))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    np.testing.assert_array_equal(read(write_rows(vectors)), vectors)


def test_every_exponent_comes_back_to_the_last_bit() -> None:
    """A hundred thousand float32 over the whole range of components."""
    rng = np.random.default_rng(6)
    vectors = (rng.uniform(1, 2, (100, 1000)) * 2.0 ** rng.integers(-40, 0, (100, 1000))).astype(
        np.float32
    )
    np.testing.assert_array_equal(read(write_rows(vectors)), vectors)


def test_a_number_takes_sixteen_bytes() -> None:
    """So many that the size of an answer can be computed before it is written."""
    vectors = np.array([ODD, ODD], dtype=np.float32)
    assert [len(row) for row in write_rows(vectors)] == [NUMBER_BYTES * len(ODD) + 1] * 2


def test_rounding_may_carry() -> None:
    """Twelve nines do not become a thirteenth digit."""
    vectors = np.array([[0.4999999999999, 0.09999999999, 0.99999994]], dtype=np.float32)
    assert write_rows(vectors) == [b"[ 0.500000000000, 0.100000001490, 0.999999940395]"]


def test_what_is_not_contiguous_is_written_too() -> None:
    """Vectors that were cut and not renormalised are parts of longer ones."""
    whole = np.random.default_rng(7).uniform(-1, 1, (5, 9)).astype(np.float32)
    np.testing.assert_array_equal(read(write_rows(whole[:, :4])), whole[:, :4])
