"""What BERT's normalisation and splitting make of every character, asked of `tokenizers` itself."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tokenizers import normalizers, pre_tokenizers

from embedder.tokenizers.characters import REORDERED
from model_compiler.tokenizer_json import NotCoveredError

__all__ = ["character_sections", "normalized_characters"]

_PAGE = 256
_CHARACTERS = 0x110000
_SURROGATES = range(0xD800, 0xE000)
_REPLACEMENT = "\ufffd"
#: The lowest and the highest combining class that there is (1 and 240).
_LOWEST, _HIGHEST = "\u0334", "\u0345"
#: All that `str.split()` splits at, in every version of Python that we run on.
_PYTHON_SPACES = [character for character in map(chr, range(0x3001)) if character.isspace()]


class _Mark(NamedTuple):
    """A combining mark: its place in the canonical order, and whether it is not stripped."""

    place: int
    stays: bool


def character_sections(
    *,
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: bool | None,
    lowercase: bool,
) -> dict[str, bytes]:
    """Return the sections `char_*`, `marks` and `odd_spaces` of a WordPiece file.

    The pre-tokenizer is BERT's; the arguments are those of the normalizer.

    Raises:
        NotCoveredError: if combining marks behave in a way that the tables cannot say.
    """
    strips = lowercase if strip_accents is None else strip_accents
    normal = normalized_characters(
        normalizers.BertNormalizer(clean_text, handle_chinese_chars, strips, lowercase)
    )
    words = _as_words(normal)
    marks = _marks(normal, clean_text=clean_text) if strips else {}
    stay = {character for character, mark in marks.items() if mark.stays}
    if any(words[ord(character)] != character for character in stay):
        raise NotCoveredError("the fast tokenizers do not cover a combining mark that is no letter")
    for code, text in words.items():
        if stay.intersection(text):
            words[code] = REORDERED + text
    odd = [character for character in _PYTHON_SPACES if words[ord(character)] != " "]
    pages, codes, texts = _paged(words)
    return {
        "char_pages": pages.tobytes(),
        "char_codes": codes.tobytes(),
        "char_text": texts,
        "marks": array(
            "I",
            [
                number
                for mark, (place, stays) in marks.items()
                for number in (ord(mark), place, stays)
            ],
        ).tobytes(),
        "odd_spaces": "".join(odd).encode(),
    }


def normalized_characters(normalizer: normalizers.Normalizer) -> dict[int, str]:
    """Return what the normalizer makes of each character alone, by code point.

    A lone surrogate is no character, and no valid text has one: it is treated as U+FFFD.
    """
    normal = {
        code: normalizer.normalize_str(chr(code))
        for code in range(_CHARACTERS)
        if code not in _SURROGATES
    }
    normal.update(dict.fromkeys(_SURROGATES, normal[ord(_REPLACEMENT)]))
    return normal


def _as_words(normal: Mapping[int, str]) -> dict[int, str]:
    """Replace spaces by U+0020 and put spaces around what is split off."""
    kinds = _split_kinds({character for text in normal.values() for character in text})
    return {code: "".join(kinds[character] for character in text) for code, text in normal.items()}


def _split_kinds(characters: Iterable[str]) -> dict[str, str]:
    """Return what the pre-tokenizer makes of each: itself, a space, or itself between spaces."""
    splitter = pre_tokenizers.BertPreTokenizer()
    kinds = {}
    for character in sorted(characters):
        pieces = [piece for piece, _ in splitter.pre_tokenize_str(f"a{character}a")]
        if len(pieces) == 1:
            kinds[character] = character
        elif len(pieces) == 2:
            kinds[character] = " "
        else:
            kinds[character] = f" {character} "
    return kinds


def _marks(normal: Mapping[int, str], *, clean_text: bool) -> dict[str, _Mark]:
    """Return the marks that are there when the library sorts them.

    What cleaning removes is gone before that.
    """
    clean = normalizers.BertNormalizer(
        clean_text=clean_text, handle_chinese_chars=False, strip_accents=False, lowercase=False
    ).normalize_str
    decompose = normalizers.NFD().normalize_str
    moved = []
    fixed = []
    for code, text in normal.items():
        character = chr(code)
        # Of more than one mark only U+0344 and three Tibetan vowels consist; all are stripped.
        if code in _SURROGATES or len(text) > 1 or decompose(character) != character:
            continue
        sorted_after = decompose(f"a{_HIGHEST}{character}") != f"a{_HIGHEST}{character}"
        sorted_before = decompose(f"a{character}{_LOWEST}") != f"a{character}{_LOWEST}"
        if (sorted_after or sorted_before) and clean(character):
            if text not in {"", character}:
                raise NotCoveredError(
                    "the fast tokenizers do not cover a combining mark that becomes another one, "
                    f"U+{code:04X}"
                )
            moved.append(character)
        elif not text and clean(character):
            fixed.append(character)
    return {
        **dict.fromkeys(fixed, _Mark(0, stays=False)),
        **{
            mark: _Mark(place, stays=bool(normal[ord(mark)]))
            for mark, place in _places(moved).items()
        },
    }


def _places(marks: Sequence[str]) -> dict[str, int]:
    """Return each mark's place in the canonical order, from 1; equal classes share a place.

    A mark that comes before another is moved past it exactly if its class is the larger one.
    """
    decompose = normalizers.NFD().normalize_str
    classes: list[str] = []  # one mark of each class, in their order
    for mark in marks:
        at = sum(decompose(f"a{mark}{other}") != f"a{mark}{other}" for other in classes)
        following = classes[at : at + 1]
        if not following or decompose(f"a{following[0]}{mark}") != f"a{following[0]}{mark}":
            classes.insert(at, mark)
    return {
        mark: 1 + sum(decompose(f"a{mark}{other}") != f"a{mark}{other}" for other in classes)
        for mark in marks
    }


def _paged(texts: Mapping[int, str]) -> tuple["array[int]", "array[int]", bytes]:
    """Return page numbers, pages and pool, as `embedder.tokenizers.characters` reads them."""
    pool = bytearray()
    known: dict[str, int] = {}

    def code_of(code: int) -> int:
        text = texts[code]
        character = chr(code)
        fixed = {character: 0, "": 1, " ": 2, f" {character} ": 3}.get(text)
        if fixed is not None:
            return fixed
        if text not in known:
            utf8 = text.encode("utf-8", "surrogatepass")
            known[text] = 4 + (len(pool) << 8 | len(utf8))
            pool.extend(utf8)
        return known[text]

    numbers: dict[bytes, int] = {}
    pages = array("H")
    for start in range(0, _CHARACTERS, _PAGE):
        page = array("I", map(code_of, range(start, start + _PAGE))).tobytes()
        pages.append(numbers.setdefault(page, len(numbers)))
    return pages, array("I", b"".join(numbers)), bytes(pool)
