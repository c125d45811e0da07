"""Tables for byte-level BPE: the regular expression over ASCII, and each character's stand-in."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from unicodedata import combining, normalize

import tokenizers
from tokenizers import normalizers

from embedder.core.fast_tokenizers.byte_level import BYTE_ALPHABET
from model_compiler.tokenizer.byte_pair_tables import merge_sections
from model_compiler.tokenizer.coverage import NotCoveredError

__all__ = ["byte_level_sections"]

_PAGE = 256
#: The one mark of the highest combining class (240): all others are moved in front of it.
_HIGHEST = "\u0345"
_CHARACTERS = 0x110000
_SURROGATES = range(0xD800, 0xE000)
#: In the byte of a character: NFC may change it.
_COMPOSES = 0x80
#: Python's white space is the library's and U+001C to U+001F.
_SPACE = r"[^\S\x1c-\x1f]"
_NO_SPACE = r"[\S\x1c-\x1f]"


class _Split(NamedTuple):
    """A regular expression that splits a text into words, as the embedder has it.

    Characters that the expression treats alike have one stand-in: `a` for letters, `0` for numbers,
    a line feed for line breaks, a space for itself, a tab for other white space, an apostrophe for
    itself, and a full stop for the rest. The letters of English contractions stay.
    """

    #: The expression over the stand-ins.
    words: str
    #: Cuts a text where two words meet, whatever is around them: at the beginning of white space.
    cut: str
    #: What the library matches for each letter of a contraction, such as `(?i:s)`.
    contractions: str


_GPT2 = _Split(
    words=r"'(?:[stmd]|re|ve|ll)| ?[a-z]+| ?0+| ?['.]+|\s+(?!\S)|\s+",
    cut=f"{_SPACE}*{_NO_SPACE}+|{_SPACE}+",
    contractions="{}",
)
#: The expressions of `Split` that are covered, as they are in a `tokenizer.json`. The first is that
#: of Qwen 2 and 3.
_SPLITS: Mapping[str, _Split] = {
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+": _Split(
        words=r"'(?:[stmd]|re|ve|ll)|[^\na-z0]?[a-z]+|0| ?['.]+\n*|\s*\n+|\s+(?!\S)|\s+",
        # Line breaks belong to punctuation in front of them, and white space to line breaks after.
        cut=f"{_SPACE}*{_NO_SPACE}+(?:(?<![A-Za-z0-9])[\\r\\n]{_SPACE}*{_NO_SPACE}*)*|{_SPACE}+",
        contractions="(?i:{})",
    ),
}


def byte_level_sections(
    document: Mapping[str, Any], model: tokenizers.models.BPE
) -> dict[str, bytes]:
    """Return the sections that only a byte-level file has, as the embedder reads them.

    Args:
        document: The `tokenizer.json`, which `coverage.check_byte_level` has accepted.
        model: The library's, which is asked what each token's own text becomes.

    Raises:
        NotCoveredError: If a byte has no token, the vocabulary or the merges are too large, or
            Python's normalization differs from the library's.
    """
    vocabulary: Mapping[str, int] = document["model"]["vocab"]
    merges: Sequence[str | Sequence[str]] = document["model"]["merges"]
    if not vocabulary.keys() >= set(BYTE_ALPHABET):
        raise NotCoveredError("the fast tokenizers do not cover bytes without a token")
    composes = document.get("normalizer") is not None
    pre_tokenizer = document["pre_tokenizer"]
    # `check_byte_level` accepts a prefix space with GPT-2's own expression only.
    prefix_space = pre_tokenizer.get("add_prefix_space", False)
    split = _split(pre_tokenizer)
    pages, alike = _alike(split, composes=composes)
    return {
        "byte_ids": array("I", [vocabulary[character] for character in BYTE_ALPHABET]).tobytes(),
        **merge_sections(model, vocabulary, merges),
        "alike_pages": pages,
        "alike": alike,
        "cut": split.cut.encode(),
        "split": split.words.encode(),
        "options": bytes([prefix_space, composes]),
    }


def _split(pre_tokenizer: Mapping[str, Any]) -> _Split:
    if pre_tokenizer["type"] == "ByteLevel":
        return _GPT2
    split = _SPLITS.get(pre_tokenizer["pretokenizers"][0]["pattern"]["Regex"])
    if split is None:
        raise NotCoveredError("the fast tokenizers do not cover the regular expression of Split")
    return split


@cache
def _alike(split: _Split, *, composes: bool) -> tuple[bytes, bytes]:
    """Return page numbers and pages of all characters' stand-ins; takes most of a second."""
    stand_ins = bytearray(b"." * _CHARACTERS)

    def put(characters: Iterable[str], stand_in: str) -> None:
        for character in characters:
            stand_ins[ord(character)] = ord(stand_in)

    put(_matching(r"\p{L}"), "a")
    put(_matching(r"\p{N}"), "0")
    put(_matching(r"\s"), "\t")
    for letter in "stmdrevl":
        put(_matching(split.contractions.format(letter)), letter)
    put("\r\n", "\n")
    put(" ", " ")
    put("'", "'")
    for character in _composing() if composes else ():
        stand_ins[ord(character)] |= _COMPOSES
    numbers: dict[bytes, int] = {}
    pages = array("H")
    for start in range(0, _CHARACTERS, _PAGE):
        page = bytes(stand_ins[start : start + _PAGE])
        pages.append(numbers.setdefault(page, len(numbers)))
    return pages.tobytes(), b"".join(numbers)


def _matching(expression: str) -> Iterator[str]:
    """Give the characters that a regular expression of the library matches alone."""
    remove = normalizers.Replace(tokenizers.Regex(expression), "").normalize_str
    for page in _pages():
        left = remove(page)
        if left != page:
            kept = set(left)
            yield from (character for character in page if character not in kept)


def _pages() -> Iterator[str]:
    for start in range(0, _CHARACTERS, _PAGE):
        if start not in _SURROGATES:
            yield "".join(map(chr, range(start, start + _PAGE)))


def _composing() -> frozenset[str]:
    """Return all characters that take part in compositions or have a place among marks.

    Raises:
        NotCoveredError: If Python's normalization of one is not the library's.
    """
    compose, decompose = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    found: set[str] = set()
    for page in _pages():
        decomposed = decompose(page)
        if decomposed == page and compose(page) == page and not any(map(combining, page)):
            continue
        for character in page:
            parts = decompose(character)
            if parts != character or compose(character) != character:
                found.update((character, *parts))
            # One that the library does not know as a mark is not moved in front of another.
            elif decompose(_HIGHEST + character) != _HIGHEST + character:
                found.add(character)
    for character in found:
        if normalize("NFD", character) != decompose(character) or normalize(
            "NFC", character
        ) != compose(character):
            raise NotCoveredError(
                f"the fast tokenizers do not cover the normalization of U+{ord(character):04X}"
            )
    return frozenset(found)
