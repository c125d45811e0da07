"""Writes the file that `fast_tokenizers.table_file` maps, and the tables that kinds share."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from zlib import crc32

import tokenizers

from embedder.core.fast_tokenizers.table_file import HEADER, MAGIC, SECTION, VERSION
from model_compiler.tokenizer.coverage import not_covered

#: Sections begin at multiples of this.
_ALIGNMENT = 64
#: Characters of a page, all code points, and those of them that are no characters.
PAGE = 256
CHARACTERS = 0x110000
SURROGATES = range(0xD800, 0xE000)


def table_file(sections: Mapping[str, bytes]) -> bytes:
    """Return the bytes of a fast tokenizer's file with these sections, in their order.

    Their names have at most 16 ASCII characters; numbers are little-endian.
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


#: An id, plus 1, has 20 bits in a slot.
_MOST_IDS = (1 << 20) - 1


def text_sections(texts: Sequence[str]) -> dict[str, bytes]:
    """Return the sections with the text of each token, by id; an empty text for an unused id."""
    utf8 = [text.encode() for text in texts]
    return {
        "token_offsets": array("I", accumulate(map(len, utf8), initial=0)).tobytes(),
        "token_text": b"".join(utf8),
    }


def id_slots(ids: Mapping[str, int]) -> bytes:
    """Return a half-full look-up table, as `fast_tokenizers.table_file` reads it."""
    if max(ids.values(), default=0) >= _MOST_IDS:
        not_covered("a vocabulary over 2^20")
    size = 1 << (2 * len(ids) + 1).bit_length()
    slots = array("I", bytes(4 * size))
    # In the order of ids: the tables do not depend on the order of the JSON.
    for text, token_id in sorted(ids.items(), key=lambda item: item[1]):
        crc = crc32(text.encode())
        slot = crc & (size - 1)
        while slots[slot]:
            slot = (slot + 1) & (size - 1)
        slots[slot] = crc >> 20 << 20 | token_id + 1
    return slots.tobytes()


def prefix_bits(texts: Iterable[str]) -> bytes:
    """Return a bit set of the prefixes of these texts, for `fast_tokenizers.wordpiece`.

    A bit that is set for another reason costs a look-up and no more; one in sixteen is.
    """
    crcs = set()
    for text in texts:
        crc = 0
        for character in text:
            crc = crc32(character.encode(), crc)
            crcs.add(crc)
    size = 1 << (16 * len(crcs)).bit_length()
    bits = bytearray(size >> 3)
    for crc in crcs:
        bits[(crc & (size - 1)) >> 3] |= 1 << (crc & 7)
    return bytes(bits)


def added_token_sections(
    name: str,
    tokens: Mapping[int, tokenizers.AddedToken],
    *,
    normalizer: tokenizers.normalizers.Normalizer | None = None,
) -> dict[str, bytes]:
    """Return the sections of added tokens by id, as `fast_tokenizers.added_tokens` reads them.

    `name` begins the sections' names. Tokens go through the normalizer that are matched after it.
    """
    listed = sorted(
        (
            normalizer.normalize_str(token.content) if normalizer else token.content,
            token_id,
            token.lstrip | token.rstrip << 1,
        )
        for token_id, token in tokens.items()
    )
    if listed and not listed[0][0]:
        not_covered("an added token without a text")
    groups = array("I")
    for index, (text, _, _) in enumerate(listed):
        if groups and groups[-3] == ord(text[0]):
            groups[-1] = index + 1
        else:
            groups.extend((ord(text[0]), index, index + 1))
    utf8 = [text.encode() for text, _, _ in listed]
    return {
        f"{name}.text": b"".join(utf8),
        f"{name}.ends": array("I", accumulate(map(len, utf8))).tobytes(),
        f"{name}.ids": array("I", [token_id for _, token_id, _ in listed]).tobytes(),
        f"{name}.strips": bytes(strips for _, _, strips in listed),
        f"{name}.groups": groups.tobytes(),
    }


@cache
def character_pages() -> tuple[tuple[int, str], ...]:
    """Return all characters, 256 code points at a time, with the first code point."""
    return tuple(
        (start, "".join(map(chr, range(start, start + PAGE))))
        for start in range(0, CHARACTERS, PAGE)
        if start not in SURROGATES
    )


def deduplicated(pages: Iterable[bytes]) -> tuple[bytes, bytes]:
    """Return the number of each page, and the different pages one after the other."""
    numbers: dict[bytes, int] = {}
    order = array("H", (numbers.setdefault(page, len(numbers)) for page in pages))
    return order.tobytes(), b"".join(numbers)
