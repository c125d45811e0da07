"""SentencePiece's precompiled character maps: what they replace, read and written.

The format is that of `spm_precompiled`, with which `tokenizers` reads it
(https://github.com/huggingface/spm_precompiled): the size of a trie in bytes (u32), the trie, and
the replacements with a NUL after each. The trie is a double array like that of darts-clone
(https://github.com/s-yata/darts-clone): from the place of a node its offset leads to the base of
its children. The child of a byte is at base XOR byte, and the value of a key at the base.
"""

import struct
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count, groupby

from model_compiler.tokenizer.coverage import NotCoveredError

__all__ = ["read_charsmap", "write_charsmap"]

_LEAF = 1 << 8
_FAR = 1 << 9
_OFFSET = 10
_VALUE = (1 << 31) - 1
_LABEL = 1 << 31 | 0xFF
#: Bytes. The library looks for longer keys in no text.
_LONGEST = 5
#: Real maps have some 10,000 keys.
_MOST_KEYS = 1 << 20


def read_charsmap(data: bytes) -> dict[str, str]:
    """Return the keys of a character map that the library looks for, and what each becomes.

    Raises:
        NotCoveredError: If a key or a replacement is no text, or the trie leads out of the file.
    """
    try:
        (size,) = struct.unpack_from("<I", data)
        units = array("I", data[4 : 4 + size // 4 * 4])
        replacements = data[4 + size // 4 * 4 :] + b"\0"
        return {
            key.decode(): replacements[value : replacements.index(0, value)].decode()
            for key, value in _keys(units).items()
        }
    except (struct.error, IndexError, ValueError) as error:
        raise NotCoveredError(
            f"the fast tokenizers do not cover a damaged character map: {error}"
        ) from error


def _keys(units: Sequence[int]) -> dict[bytes, int]:
    """Return the value of each key."""
    children: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, unit in enumerate(units):
        label = unit & _LABEL
        if 0 < label < 256:
            children[place ^ label].append((label, place))
    keys = {}
    nodes = [(b"", _offset(units[0]))]
    while nodes:
        key, base = nodes.pop()
        for label, place in children.get(base, ()):
            unit = units[place]
            longer, following = key + bytes([label]), place ^ _offset(unit)
            if unit & _LEAF:
                keys[longer] = units[following] & _VALUE
            if len(longer) < _LONGEST:
                nodes.append((longer, following))
        if len(nodes) > _MOST_KEYS:
            raise ValueError("the trie has no end")
    return keys


def _offset(unit: int) -> int:
    return (unit >> _OFFSET) << ((unit & _FAR) >> 6)


def write_charsmap(replacements: Mapping[str, str]) -> bytes:
    """Return a character map with these keys, at least one, and what they become.

    Raises:
        ValueError: If there are more keys than the trie's offsets can reach.
    """
    pool = bytearray()
    keys = []
    for key, text in sorted(replacements.items()):
        keys.append((key.encode(), len(pool)))
        pool += text.encode() + b"\0"
    units = {0: 0}
    bases: set[int] = set()
    free = 1
    nodes = [(0, 0, keys)]  # The place of a node, its depth, and the keys below it.
    while nodes:
        place, depth, below = nodes.pop()
        groups = {
            label: list(group)
            for label, group in groupby(below, lambda item: (*item[0], 0)[depth])  # noqa: B023
        }
        while free in units:
            free += 1
        first = min(groups)
        base = next(
            base
            for base in (at ^ first for at in count(free) if at not in units)
            if base not in bases and not any(base ^ label in units for label in groups)
        )
        bases.add(base)
        if place ^ base >= 1 << (32 - _OFFSET - 1):
            raise ValueError(f"A character map of {len(keys)} keys cannot be written.")
        units[place] |= (place ^ base) << _OFFSET | (_LEAF if 0 in groups else 0)
        for label, group in groups.items():
            if label:
                units[base ^ label] = label
                nodes.append((base ^ label, depth + 1, group))
            else:
                units[base] = 1 << 31 | group[0][1]
    # A byte may lead up to 255 units further than any that is taken.
    trie = array("I", [units.get(place, 0) for place in range((max(units) | 0xFF) + 1)])
    return struct.pack("<I", 4 * len(trie)) + trie.tobytes() + bytes(pool)
