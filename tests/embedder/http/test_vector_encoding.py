"""Numbers and base64, and the number of vectors that fit into a response."""

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
from embedder.core.quantization import DTYPES, quantize
from embedder.http.http_types import ENVELOPE_BYTES, MAX_RESPONSE_BYTES
from embedder.http.vector_encoding import ENCODINGS, check_batch, encode, largest_batch

VECTORS = arrays(np.float32, (3, 16), elements=st.floats(-3, 3, width=32).map(lambda x: x + 0.0))
#: Bytes of one number in base64.
ITEM = {"float": "<f4", "int8": "<i1", "uint8": "<u1", "binary": "<i1", "ubinary": "<u1"}


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
    limit = re.search(r"more than (\d+) vectors", str(caught.value))
    assert limit is not None
    assert int(limit[1]) * smallest >= 0.95 * MAX_RESPONSE_BYTES
    check_batch(int(limit[1]), 16, dtype, "float", field="input")


@pytest.mark.parametrize("dimensions", [8, 9, 12, 16])
def test_the_bytes_of_packed_bits_are_counted_up(dimensions):
    """Eight components take one byte, and a remainder takes one more."""
    bits = quantize(np.zeros((1, dimensions), np.float32), "ubinary")
    room = MAX_RESPONSE_BYTES - 2 * 4096
    assert largest_batch(dimensions, "ubinary", "float") == room // (4 * bits.shape[1] + 64)
