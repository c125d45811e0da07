"""Digests without OpenSSL, which takes 3 ms of a start and 4 MB to load.

Importing `hashlib` always loads OpenSSL; CPython's own `_blake2` module does not need it. The
standard library's `random` avoids OpenSSL the same way.
"""

try:
    from _blake2 import blake2b
except ImportError:  # a Python that is built otherwise
    from hashlib import blake2b

__all__ = ["digest"]


def digest(data: bytes, size: int) -> bytes:
    """Return the BLAKE2b digest of `data` in `size` bytes (RFC 7693), at most 64."""
    return blake2b(data, digest_size=size).digest()
