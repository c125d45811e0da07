"""Writes the file that `embedder.core.fast_tokenizers.table_file` maps."""

from collections.abc import Mapping

from embedder.core.fast_tokenizers.table_file import HEADER, MAGIC, SECTION, VERSION

__all__ = ["table_file"]

#: Sections begin at multiples of this.
_ALIGNMENT = 64


def table_file(sections: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a fast tokenizer's file with these sections, in their order.

    Args:
        sections: Their contents by name (at most 16 ASCII characters), numbers little-endian.
    """
    entries = b""
    body = bytearray()
    start = _aligned(HEADER.size + len(sections) * SECTION.size)
    for name, content in sections.items():
        body += bytes(_aligned(len(body)) - len(body))
        encoded = name.encode("ascii")
        if len(encoded) > 16:
            raise ValueError(f"A section's name has at most 16 characters; {name!r} has more.")
        entries += SECTION.pack(encoded, start + len(body), len(content))
        body += content
    header = HEADER.pack(MAGIC, VERSION, len(sections), start + len(body)) + entries
    return header + bytes(start - len(header)) + bytes(body)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
