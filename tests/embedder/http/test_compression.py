"""Compression and decompression with gzip."""

import gzip
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.errors import BodyTooLargeError, MalformedBodyError
from embedder.http.compression import accepts_gzip, decoded


@pytest.mark.parametrize(
    ("accepted", "headers"),
    [
        (True, ["gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5", "*", "gzip ; q=0.001"]),
        (False, ["", "br", "identity", "gzip;q=0", "gzip;q=0.000, *", "*;q=0", "gzipped"]),
    ],
)
def test_gzip_is_accepted_where_the_header_names_it(accepted, headers):
    """In any letter case or by an asterisk, and with a weight above zero."""
    assert {accepts_gzip(header) for header in headers} == {accepted}


@given(st.binary(max_size=300))
def test_what_was_packed_is_inflated(body):
    """Data compressed by the standard library is restored."""
    assert decoded(gzip.compress(body), "gzip", 300) == body


def test_the_whole_window_of_gzip_is_inflated():
    """Data that repeats over a distance of 30 KB needs gzip's largest window."""
    body = np.random.default_rng(5).bytes(30_000) * 2
    assert decoded(gzip.compress(body), "gzip", len(body)) == body


def test_no_more_than_the_limit_is_inflated():
    """Decompression stops at the limit, so that a zip bomb is refused without using memory."""
    bomb = gzip.compress(bytes(10_000_000))
    tracemalloc.start()
    with pytest.raises(BodyTooLargeError, match="more than 6000 bytes once it is inflated"):
        decoded(bomb, "gzip", 6000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert len(decoded(gzip.compress(bytes(6000)), "gzip", 6000)) == 6000


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
def test_what_is_not_one_gzip_stream_is_refused(body, message):
    """The error describes the problem found."""
    with pytest.raises(MalformedBodyError, match=message):
        decoded(body, "gzip", 1000)
