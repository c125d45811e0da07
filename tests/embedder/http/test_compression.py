"""Compression and decompression with gzip."""

import base64
import gzip
import zlib

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.errors import BodyTooLargeError, MalformedBodyError
from embedder.http.compression import accepts_gzip, inflate, packed
from embedder.http.http_types import Response


@pytest.mark.parametrize(
    ("accepted", "headers"),
    [
        (True, ["gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5", "*", "gzip ; q=0.001"]),
        (False, ["", "br", "identity", "gzip;q=0", "gzip;q=0.000, *", "*;q=0", "gzipped"]),
    ],
)
def test_gzip_is_accepted_where_the_header_names_it(accepted: bool, headers: list[str]) -> None:
    """In any letter case or by an asterisk, and with a weight above zero."""
    assert {accepts_gzip(header) for header in headers} == {accepted}


def test_numbers_are_packed() -> None:
    """The body is compressed, and the headers for it are added to the existing ones."""
    vectors = np.random.default_rng(3).standard_normal((50, 384)).astype(np.float32)
    body = orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY)
    response = packed(Response(200, body, {"x-a": "b"}))
    assert gzip.decompress(response.body) == body
    assert len(response.body) < 0.5 * len(body)
    assert response.headers == {"x-a": "b", "content-encoding": "gzip", "vary": "accept-encoding"}


def test_what_does_not_get_smaller_is_left() -> None:
    """Base64 of random bytes, such as vectors in base64, is not compressed."""
    body = base64.b64encode(np.random.default_rng(3).bytes(60_000))
    response = Response(200, body, {})
    assert packed(response) is response


@given(st.binary(max_size=300))
def test_what_was_packed_is_inflated(body: bytes) -> None:
    """Data compressed by the standard library is restored."""
    assert inflate(gzip.compress(body), 300) == body


def test_the_whole_window_of_gzip_is_inflated() -> None:
    """Data that repeats over a distance of 30 KB needs gzip's largest window."""
    body = np.random.default_rng(5).bytes(30_000) * 2
    assert inflate(gzip.compress(body), len(body)) == body


def test_no_more_than_the_limit_is_inflated() -> None:
    """Decompression stops at the limit, so that a zip bomb is refused without using memory."""
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
        (gzip.compress(b"abc", mtime=0)[:-3], "cut short"),
        (gzip.compress(b"abc", mtime=0) + b"more", "data after its end"),
        (gzip.compress(b"abc", mtime=0)[:-8] + bytes(8), "is not gzip"),
    ],
)
def test_what_is_not_one_gzip_stream_is_refused(body: bytes, message: str) -> None:
    """The error describes the problem found."""
    with pytest.raises(MalformedBodyError, match=message):
        inflate(body, 1000)
