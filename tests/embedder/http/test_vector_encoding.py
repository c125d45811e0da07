"""Number formats, base64, and the number of vectors that fit into a response."""

import base64
import json
import re

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from embedder.core.errors import BatchTooLargeError
from embedder.http.http_types import ENVELOPE_BYTES, MAX_RESPONSE_BYTES
from embedder.http.vector_encoding import (
    DTYPES,
    ENCODINGS,
    INT8_SCALE,
    check_batch,
    encode,
    largest_batch,
    quantize,
)

VECTORS = arrays(np.float32, (3, 16), elements=st.floats(-3, 3, width=32).map(lambda x: x + 0.0))
#: Bytes of one number in base64.
ITEM = {"float": "<f4", "int8": "<i1", "uint8": "<u1", "binary": "<i1", "ubinary": "<u1"}


@given(VECTORS)
def test_int8_is_one_linear_scale(vectors):
    """The value is round(16·√d·x), cut to the range of int8; here 16·√16 = 64."""
    expected = [[max(-128, min(127, round(float(x) * 64))) for x in row] for row in vectors]
    assert quantize(vectors, "int8").tolist() == expected


@given(VECTORS)
def test_uint8_is_int8_and_128_and_binary_is_ubinary_minus_128(vectors):
    """The numbers are the same, shifted into the range of the other type."""
    for dtype, other, shift in (("uint8", "int8", 128), ("binary", "ubinary", -128)):
        found = quantize(vectors, dtype)
        assert (found == quantize(vectors, other).astype(int) + shift).all()
        assert found.dtype == (np.uint8 if dtype == "uint8" else np.int8)


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


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=30)
@given(vectors=VECTORS)
def test_base64_holds_the_numbers_of_the_list(dtype, vectors):
    """Bytes are little-endian, and JSON floats are exact."""
    listed = json.loads(
        orjson.dumps(encode(vectors, dtype, "float"), option=orjson.OPT_SERIALIZE_NUMPY)
    )
    packed = [
        np.frombuffer(base64.b64decode(text), dtype=ITEM[dtype])
        for text in encode(vectors, dtype, "base64")
    ]
    np.testing.assert_array_equal(np.array(listed, dtype=ITEM[dtype]), np.stack(packed))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("dimensions", [128, 768])
def test_the_largest_batch_fits_into_an_answer(dtype, encoding, dimensions):
    """The batch fits even with the longest numbers and in the API with the most overhead."""
    count = largest_batch(dimensions, dtype, encoding)
    longest = np.array([-0.0000123156815], dtype=np.float32)
    if dtype != "float":
        longest = np.array([-1.0], dtype=np.float32)
    if dtype in {"uint8", "ubinary"}:
        longest = -longest
    row = encode(np.repeat(longest, dimensions)[None, :], dtype, encoding)[0]
    body = orjson.dumps(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": row} for index in range(count)
            ],
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    ).decode()
    envelope = json.dumps({"body": body}, ensure_ascii=False).encode()
    assert len(envelope) + ENVELOPE_BYTES < MAX_RESPONSE_BYTES
    assert len(envelope) > 0.85 * MAX_RESPONSE_BYTES


# Small numbers have the longest representation.
@example(-1.23156815e-5)
@example(1.2345678e-10)
@example(9.999999e-5)
@example(-1.1754944e-38)
@example(-0.99999994)
@given(st.floats(-1, 1, width=32))
def test_no_component_takes_more_room_than_computed(value):
    """The longest number of a unit vector has at most 17 characters with its comma."""
    text = orjson.dumps(np.array([value], dtype=np.float32), option=orjson.OPT_SERIALIZE_NUMPY)
    assert len(text) - 2 + 1 <= 17


def test_base64_is_refused_before_it_is_computed():
    """The size of base64 is known in advance, and the error has the number of vectors that fits."""
    allowed = largest_batch(768, "float", "base64")
    check_batch(allowed, 768, "float", "base64", field="input")
    with pytest.raises(
        BatchTooLargeError,
        match=rf'"input" holds {allowed + 1} inputs.*more than {allowed} vectors of 768 dimensions',
    ):
        check_batch(allowed + 1, 768, "float", "base64", field="input")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_list_of_numbers_is_refused_early_only_if_it_can_never_fit(dtype):
    """A batch is refused early only if even zeros, the shortest numbers, would not fit."""
    row = quantize(np.zeros((1, 16), dtype=np.float32), dtype)
    smallest = len(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)) - 2 - 1
    with pytest.raises(BatchTooLargeError, match=r'"base64" where the path takes it') as caught:
        check_batch(10_000_000, 16, dtype, "float", field="input")
    found = re.search(r"more than (\d+) vectors", str(caught.value))
    assert found is not None
    assert int(found[1]) * smallest >= 0.95 * MAX_RESPONSE_BYTES
    check_batch(int(found[1]), 16, dtype, "float", field="input")


@pytest.mark.parametrize("dimensions", [8, 9, 12, 16])
def test_the_bytes_of_packed_bits_are_counted_up(dimensions):
    """Eight components take one byte, and a remainder takes one more."""
    bits = quantize(np.zeros((1, dimensions), np.float32), "ubinary")
    room = MAX_RESPONSE_BYTES - 2 * 4096
    assert largest_batch(dimensions, "ubinary", "float") == room // (4 * bits.shape[1] + 64)
