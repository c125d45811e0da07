"""The digest is BLAKE2b in every implementation."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from embedder.digest import digest


@given(st.binary(), st.integers(1, 64))
def test_is_that_of_hashlib(data: bytes, size: int) -> None:
    assert digest(data, size) == hashlib.blake2b(data, digest_size=size).digest()
