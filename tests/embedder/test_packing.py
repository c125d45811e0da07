"""Gzip, in and out."""

import base64
import gzip
import zlib

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.errors import BodyTooLargeError, MalformedBodyError
from embedder.messages import Response
from embedder.packing import accepts_gzip, inflate, packed


@pytest.mark.parametrize(
    "header",
    ["gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5", "*", "deflate,gzip", "gzip ; q=0.001"],
)
def test_gzip_is_accepted_where_the_header_names_it(header: str) -> None:
    """By name in any case, or by a star."""
    assert accepts_gzip(header)


@pytest.mark.parametrize(
    "header", ["", "br", "identity", "gzip;q=0", "gzip;q=0.000, *", "*;q=0", "deflate", "gzipped"]
)
def test_gzip_is_not_accepted_otherwise(header: str) -> None:
    """Not where it is absent, and not where its weight is zero."""
    assert not accepts_gzip(header)


def test_numbers_are_packed() -> None:
    """The body is gzip, and the headers say so beside those that were there."""
    vectors = np.random.default_rng(3).standard_normal((50, 384)).astype(np.float32)
    body = orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY)
    response = packed(Response(200, body, {"x-a": "b"}))
    assert gzip.decompress(response.body) == body
    assert len(response.body) < 0.5 * len(body)
    assert response.headers == {"x-a": "b", "content-encoding": "gzip", "vary": "accept-encoding"}


def test_what_does_not_get_smaller_is_left() -> None:
    """Random bytes in base64, as an answer in base64 holds them."""
    body = base64.b64encode(np.random.default_rng(3).bytes(60_000))
    response = Response(200, body, {})
    assert packed(response) is response


@given(st.binary(max_size=300))
def test_what_was_packed_is_inflated(body: bytes) -> None:
    """By anybody's gzip."""
    assert inflate(gzip.compress(body), 300) == body


def test_no_more_than_the_limit_is_inflated() -> None:
    """A bomb of 1,000 times its size is refused, and never made."""
    bomb = gzip.compress(bytes(10_000_000))
    with pytest.raises(BodyTooLargeError, match="more than 6000 bytes once it is inflated"):
        inflate(bomb, 6000)
    assert len(inflate(gzip.compress(bytes(6000)), 6000)) == 6000


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "cut short"),
        (b'{"text": "a"}', "is not gzip"),
        (zlib.compress(b"a"), "is not gzip"),
        (gzip.compress(b"abc")[:-3], "cut short"),
        (gzip.compress(b"abc") + b"more", "data after its end"),
        (gzip.compress(b"abc")[:-8] + bytes(8), "is not gzip"),
    ],
)
def test_what_is_not_one_gzip_stream_is_refused(body: bytes, message: str) -> None:
    """The error says what was found."""
    with pytest.raises(MalformedBodyError, match=message):
        inflate(body, 1000)
