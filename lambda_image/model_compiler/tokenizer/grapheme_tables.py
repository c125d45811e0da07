"""What each character is in a grapheme cluster, as `tokenizers` itself takes texts apart.

The library's version of Unicode is its own. A character map of a few keys shows where it ends a
cluster: a key replaces the whole cluster that begins with it, if that has fewer than 6 bytes, so an
accent at the end of one is lost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from tokenizers import normalizers

from model_compiler.tokenizer.charsmap import write_charsmap
from model_compiler.tokenizer.coverage import NotCoveredError

__all__ = ["character_kinds"]

#: The planes with characters that are not each a cluster: the two of scripts and symbols, and that
#: of tags. The others have ideographs, or are private or unassigned.
_PLANES = (range(0x7F, 0x20000), range(0xE0000, 0xE1000))
_SURROGATES = range(0xD800, 0xE000)
_ACCENT = "\u0301"
_JOINER = "\u200d"
#: A consonant and a virama, and a consonant that is a key of the map below.
_KA, _VIRAMA, _QA = "\u0915", "\u094d", "\u0958"
_KEYS = {"a": "X", "©": "X", "™": "X", _QA: "X", _ACCENT * 2: "X"}
#: Separates texts. A cluster ends on each side of a control.
_BETWEEN = "\x01"


@cache
def character_kinds() -> Mapping[str, str]:
    """Return the letter in `character_map.KINDS` of each character that is not an ordinary one.

    Takes about a second.

    Raises:
        NotCoveredError: If the library has a kind of character that the letters cannot say.
    """
    normalizer = normalizers.Precompiled(write_charsmap(_KEYS))

    def those(
        characters: Iterable[str], text: Callable[[str], str], test: Callable[[str], bool]
    ) -> set[str]:
        """Return the characters whose text passes the test after normalization."""
        listed = list(characters)
        normal = normalizer.normalize_str(_BETWEEN.join(map(text, listed))).split(_BETWEEN)
        return {character for character, result in zip(listed, normal, strict=True) if test(result)}

    def keeps_accent(result: str) -> bool:
        return result.endswith(_ACCENT)

    characters = set(_characters())
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
        raise NotCoveredError("the fast tokenizers do not cover this version of grapheme clusters")
    kinds = dict.fromkeys(map(chr, range(0x20)), "c") | {"\r": "r", "\n": "n"}
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
        kinds.update(dict.fromkeys(group, letter))
    return kinds


def _characters() -> Iterator[str]:
    for plane in _PLANES:
        for code in plane:
            if code not in _SURROGATES:
                yield chr(code)
