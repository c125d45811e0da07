"""Writes a fast tokenizer's file in the layout of `embedder.fast_tokenizers.table_file`."""

from collections.abc import Mapping
from zlib import crc32

from embedder.fast_tokenizers.table_file import BLOCK, HEADER, MAGIC, SECTION, VERSION

__all__ = ["table_file"]

_ALIGNMENT = 64


def table_file(sections: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a file with these sections, in their order.

    Args:
        sections: their contents by name (at most 16 ASCII characters), numbers little-endian.
    """
    checks = b"".join(
        crc32(content[start : start + BLOCK]).to_bytes(4, "little")
        for content in sections.values()
        for start in range(0, len(content), BLOCK)
    )
    checks += crc32(checks).to_bytes(4, "little")
    everything = {**sections, "checks": checks}

    entries = b""
    body = bytearray()
    start = _aligned(HEADER.size + len(everything) * SECTION.size + 4)
    first_check = 0
    for name, content in everything.items():
        body += bytes(_aligned(len(body)) - len(body))
        encoded = name.encode("ascii")
        if len(encoded) > 16:
            raise ValueError(f"A section's name has at most 16 characters, {name!r} has more.")
        entries += SECTION.pack(encoded, start + len(body), len(content), first_check, 0)
        body += content
        first_check += -(-len(content) // BLOCK)
    header = HEADER.pack(MAGIC, VERSION, len(everything), start + len(body)) + entries
    header += crc32(header).to_bytes(4, "little")
    return header + bytes(start - len(header)) + bytes(body)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
