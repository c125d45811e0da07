"""Digests without OpenSSL, which takes 3 ms of a start and 4 MB to load.

`hashlib` loads it for whatever is asked of it. BLAKE2 is Python's own, in a module that has it
alone; the standard library's `random` takes its hash the same way.
"""

try:
    from _blake2 import blake2b
except ImportError:  # a Python that is built otherwise
    from hashlib import blake2b

__all__ = ["digest"]


def digest(data: bytes, size: int) -> bytes:
    """Return the BLAKE2b digest of `data` in `size` bytes (RFC 7693), 64 at the most."""
    return blake2b(data, digest_size=size).digest()
