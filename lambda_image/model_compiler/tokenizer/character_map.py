"""SentencePiece's precompiled character maps, and the clusters of characters that they replace.

The format is that of `spm_precompiled`, with which `tokenizers` reads it
(https://github.com/huggingface/spm_precompiled): the size of a trie in bytes (u32), the trie, and
the replacements with a NUL after each. The trie is a double array like that of darts-clone
(https://github.com/s-yata/darts-clone): from the place of a node its offset leads to the base of
its children. The child of a byte is at base XOR byte, and the value of a key at the base.

The library's version of Unicode is its own. A map of a few keys shows where it ends a cluster: a
key replaces the whole cluster that begins with it, if that has fewer than 6 bytes, so an accent at
the end of one is lost.
"""

import struct
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, count, groupby
from operator import methodcaller

from tokenizers import normalizers

from model_compiler.tokenizer.coverage import not_covered
from model_compiler.tokenizer.table_file import SURROGATES

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
    """Return the keys of a character map that the library looks for, and what each becomes."""
    try:
        (size,) = struct.unpack_from("<I", data)
        units = array("I", data[4 : 4 + size // 4 * 4])
        replacements = data[4 + size // 4 * 4 :] + b"\0"
        return {
            key.decode(): replacements[value : replacements.index(0, value)].decode()
            for key, value in _keys(units).items()
        }
    except (struct.error, IndexError, ValueError) as error:
        not_covered("a damaged character map:", error)


def _keys(units: Sequence[int]) -> dict[bytes, int]:
    children: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for index, unit in enumerate(units):
        label = unit & _LABEL
        if 0 < label < 256:
            children[index ^ label].append((label, index))
    keys = {}
    nodes = [(b"", _offset(units[0]))]
    while nodes:
        key, base = nodes.pop()
        for label, index in children.get(base, ()):
            unit = units[index]
            longer, following = key + bytes([label]), index ^ _offset(unit)
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
    """Return a character map with these keys, at least one, and their replacements."""
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
        node, depth, below = nodes.pop()
        groups = {
            label: list(group)
            for label, group in groupby(below, lambda item: (*item[0], 0)[depth])  # noqa: B023
        }
        while free in units:
            free += 1
        smallest = min(groups)
        base = next(
            base
            for base in (at ^ smallest for at in count(free) if at not in units)
            if base not in bases and not any(base ^ label in units for label in groups)
        )
        bases.add(base)
        if node ^ base >= 1 << (32 - _OFFSET - 1):
            raise ValueError(f"A character map of {len(keys)} keys cannot be written.")
        units[node] |= (node ^ base) << _OFFSET | (_LEAF if 0 in groups else 0)
        for label, group in groups.items():
            if label:
                units[base ^ label] = label
                nodes.append((base ^ label, depth + 1, group))
            else:
                units[base] = 1 << 31 | group[0][1]
    # A byte may lead up to 255 units further than any that is taken.
    trie = array("I", [units.get(index, 0) for index in range((max(units) | 0xFF) + 1)])
    return struct.pack("<I", 4 * len(trie)) + trie.tobytes() + bytes(pool)


#: The planes with characters that are not each a cluster: the two of scripts and symbols, and that
#: of tags. The others have ideographs, or are private or unassigned.
_PLANES = (range(0x7F, 0x20000), range(0xE0000, 0xE1000))

_ACCENT = "\u0301"
_JOINER = "\u200d"
#: A consonant and a virama, and a consonant that is a key of the map below.
_KA, _VIRAMA, _QA = "\u0915", "\u094d", "\u0958"
_KEYS = {"a": "X", "©": "X", "™": "X", _QA: "X", _ACCENT * 2: "X"}
#: Separates texts. A cluster ends on each side of a control.
_BETWEEN = "\x01"


@cache
def character_kinds() -> Mapping[str, str]:
    """Return the letter in `CHARACTER_CLASSES` of each character that is not an ordinary one.

    Takes about a second.
    """
    normalizer = normalizers.Precompiled(write_charsmap(_KEYS))

    def those(
        characters: Iterable[str], text: Callable[[str], str], test: Callable[[str], bool]
    ) -> set[str]:
        """Return the characters with a text that passes the test after normalization."""
        listed = list(characters)
        normal = normalizer.normalize_str(_BETWEEN.join(map(text, listed))).split(_BETWEEN)
        return {character for character, result in zip(listed, normal, strict=True) if test(result)}

    keeps_accent = methodcaller("endswith", _ACCENT)
    characters = {*map(chr, chain(*_PLANES))} - {*map(chr, SURROGATES)}
    # After a control, two accents are a cluster, which is a key.
    controls = those(characters, lambda c: c + 2 * _ACCENT, lambda result: result.endswith("X"))
    characters -= controls
    marks = those(characters, lambda c: "a" + c, lambda result: result == "X")
    characters -= marks
    # Below, a key and its accent stay separate only if the characters before join their cluster.
    prefixes = those(characters, lambda c: c + "a" + _ACCENT, keeps_accent)
    characters -= prefixes
    consonants = those(characters, lambda c: c + _VIRAMA + _QA + _ACCENT, keeps_accent)
    pictographs = those(
        characters - consonants, lambda c: c + _JOINER + "™" + _ACCENT, keeps_accent
    )
    extending = those(marks, lambda c: "©" + c + _JOINER + "™" + _ACCENT, keeps_accent)
    linkers = those(marks, lambda c: _KA + c + _QA + _ACCENT, keeps_accent)
    conjunct = those(marks, lambda c: _KA + _VIRAMA + c + _QA + _ACCENT, keeps_accent)
    if not linkers <= conjunct & extending or conjunct - extending != {_JOINER}:
        not_covered("this version of grapheme clusters")
    letters = dict.fromkeys(map(chr, range(0x20)), "c") | {"\r": "r", "\n": "n"}
    for letter, group in (
        ("c", controls),
        ("s", marks),
        ("u", extending),
        ("e", conjunct),
        ("l", linkers),
        ("z", {_JOINER}),
        ("p", prefixes),
        ("x", pictographs),
        ("k", consonants),
    ):
        letters.update(dict.fromkeys(group, letter))
    return letters
