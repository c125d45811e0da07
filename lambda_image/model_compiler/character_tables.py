"""What BERT's normalisation and splitting make of every character, asked of `tokenizers` itself.

Tables here hold what changes: a character that is not in one stays what it is.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from tokenizers import normalizers, pre_tokenizers

from embedder.tokenizers.characters import REORDERED
from model_compiler.tokenizer_json import NotCoveredError

__all__ = ["character_sections"]

_PAGE = 256
_CHARACTERS = 0x110000
_SURROGATES = range(0xD800, 0xE000)
_REPLACEMENT = "\ufffd"
#: How many texts the library is asked about in one call, and what stands between them.
_TOGETHER = 4096
_BETWEEN = "0"
#: The one mark of the highest combining class (240): all others that move are moved past it.
_HIGHEST = "\u0345"
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
    normal = _normalized(
        normalizers.BertNormalizer(clean_text, handle_chinese_chars, strips, lowercase)
    )
    words = _as_words(normal)
    marks = _marks(normal, clean_text=clean_text) if strips else {}
    compounds = _compounds(marks, normal) if strips else ()
    stay = {character for character, mark in marks.items() if mark.stays}
    if any(ord(character) in words for character in stay):
        raise NotCoveredError("the fast tokenizers do not cover a combining mark that is no letter")
    words.update({ord(character): REORDERED + character for character in stay})
    for code, text in words.items():
        if not text.startswith(REORDERED) and not stay.isdisjoint(text):
            words[code] = REORDERED + text
    pages, codes, texts = _paged(words)
    return {
        "char_pages": pages,
        "char_codes": codes,
        "char_text": texts,
        "marks": array(
            "I", [number for mark, about in marks.items() for number in (ord(mark), *about)]
        ).tobytes(),
        "compounds": "".join(compounds).encode(),
        "odd_spaces": "".join(
            character for character in _PYTHON_SPACES if words.get(ord(character), character) != " "
        ).encode(),
    }


def _pages() -> Iterator[list[str]]:
    """Give all characters, 256 code points at a time."""
    for start in range(0, _CHARACTERS, _PAGE):
        if start not in _SURROGATES:
            yield [chr(code) for code in range(start, start + _PAGE)]


def _normalized(normalizer: normalizers.Normalizer) -> dict[int, str]:
    """Return what the normalizer makes of each character alone, by code point.

    A lone surrogate is no character, and no valid text has one: it is treated as U+FFFD.
    """
    changed: dict[int, str] = {}
    for page in _pages():
        together = normalizer.normalize_str("".join(page))
        if not together:
            changed.update(dict.fromkeys(map(ord, page), ""))
        elif together != "".join(page):
            each = zip(page, _each(normalizer, page), strict=True)
            changed.update({ord(old): new for old, new in each if new != old})
    replaced = changed.get(ord(_REPLACEMENT), _REPLACEMENT)
    changed.update(dict.fromkeys(_SURROGATES, replaced))
    return changed


def _each(normalizer: normalizers.Normalizer, texts: Iterable[str]) -> Iterator[str]:
    """Give what the normalizer makes of each text, thousands in one call.

    Between them stands a digit: nothing becomes one that was none, and no mark moves past one.
    """
    remaining = iter(texts)
    while several := list(islice(remaining, _TOGETHER)):
        if _BETWEEN in "".join(several):
            yield from map(normalizer.normalize_str, several)
        else:
            joined = normalizer.normalize_str(_BETWEEN.join(["", *several]))
            yield from joined.split(_BETWEEN)[1:]


def _as_words(normal: Mapping[int, str]) -> dict[int, str]:
    """Replace spaces by U+0020 and put spaces around what is split off."""
    kinds = _split_kinds(sorted({character for text in normal.values() for character in text}))
    words = {
        code: "".join(kinds.get(character, character) for character in text) if text else ""
        for code, text in normal.items()
    }
    for page in _pages():
        kept = [character for character in page if ord(character) not in normal]
        words.update({ord(character): kind for character, kind in _split_kinds(kept).items()})
    return words


def _split_kinds(characters: Sequence[str]) -> dict[str, str]:
    """Return what the pre-tokenizer makes of those that are no letters.

    It is a space, or the character itself between spaces.
    """
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    if len(split("a" + "".join(characters) + "a")) == 1:
        return {}
    kinds = dict.fromkeys(characters, " ")
    # Each stands between two letters: alone at an odd place if it is split off, in a longer piece
    # if it is a letter, and in no piece if it is a space.
    for _, (start, stop) in split("a" + "a".join(characters) + "a"):
        for character in characters[start // 2 : stop // 2]:
            if stop - start > 1:
                del kinds[character]
            else:
                kinds[character] = f" {character} "
    return kinds


def _marks(normal: Mapping[int, str], *, clean_text: bool) -> dict[str, _Mark]:
    """Return the marks that are there when the library sorts them.

    What cleaning removes is gone before that.
    """
    cleaned = _normalized(
        normalizers.BertNormalizer(
            clean_text=clean_text, handle_chinese_chars=False, strip_accents=False, lowercase=False
        )
    )
    decomposer = normalizers.NFD()
    moved = []
    fixed = []
    for page in _pages():
        marks = [character for character in page if cleaned.get(ord(character)) != ""]
        both = "".join(_HIGHEST + character for character in marks)
        if decomposer.normalize_str(both) != both:
            moved += [
                character
                for character, alone, behind in zip(
                    marks,
                    _each(decomposer, marks),
                    _each(decomposer, (_HIGHEST + character for character in marks)),
                    strict=True,
                )
                if alone == character and behind != _HIGHEST + character
            ]
        fixed += [character for character in marks if normal.get(ord(character)) == ""]
    places = _places([*moved, _HIGHEST])
    for mark in places:
        if normal.get(ord(mark), mark) not in {"", mark}:
            raise NotCoveredError(
                "the fast tokenizers do not cover a combining mark that becomes another one, "
                f"U+{ord(mark):04X}"
            )
    return {
        **{mark: _Mark(0, stays=False) for mark in fixed},
        **{
            mark: _Mark(place, stays=ord(mark) not in normal)
            for mark, place in sorted(places.items())
        },
    }


def _compounds(marks: Mapping[str, _Mark], normal: Mapping[int, str]) -> Iterator[str]:
    """Give each character that is two stripped marks, followed by the two."""
    decompose = normalizers.NFD().normalize_str
    for page in _pages():
        # In all of Unicode these are U+0344 and three vowels of Tibetan.
        for character in (character for character in page if normal.get(ord(character)) == ""):
            decomposed = decompose(character)
            if len(decomposed) == 2 and all(mark in marks for mark in decomposed):
                yield character + decomposed


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


def _paged(texts: Mapping[int, str]) -> tuple[bytes, bytes, bytes]:
    """Return page numbers, pages and pool, as `embedder.tokenizers.characters` reads them."""
    pool = bytearray()
    known: dict[str, int] = {}

    def code_of(code: int) -> int:
        text = texts.get(code)
        if text is None:
            return 0
        character = chr(code)
        fixed = {"": 1, " ": 2, f" {character} ": 3}.get(text)
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
    return pages.tobytes(), b"".join(numbers), bytes(pool)
