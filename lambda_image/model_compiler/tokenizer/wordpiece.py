"""WordPiece: what of a `tokenizer.json` is covered, and its tables.

BERT's normalization and splitting of every character are computed with `tokenizers` itself. There
are 1,114,112 code points, and most come in pages that stay as they are or vanish: those are asked
about a page at a time.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

from tokenizers import normalizers, pre_tokenizers

from embedder.core.fast_tokenizers.table_file import REORDERED
from model_compiler.tokenizer.coverage import Json, not_covered, only_keys
from model_compiler.tokenizer.table_file import (
    CHARACTERS,
    PAGE,
    SURROGATES,
    character_pages,
    deduplicated,
    id_slots,
    prefix_bits,
)


def check_wordpiece(document: Json) -> None:
    """Check that the fast WordPiece covers the normalizer, pre-tokenizer and model."""
    normalizer = document.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer":
        not_covered("normalizer", normalizer.get("type"))
    only_keys(
        normalizer,
        {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"},
        "the normalizer",
    )
    pre_tokenizer = document.get("pre_tokenizer") or {}
    if pre_tokenizer != {"type": "BertPreTokenizer"}:
        not_covered("pre_tokenizer", pre_tokenizer.get("type"))
    model = document["model"]
    only_keys(
        model,
        {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
        "the model",
    )
    if model.get("unk_token") not in model["vocab"]:
        not_covered("an unknown token that is not in the vocabulary:", model.get("unk_token"))
    for token in document.get("added_tokens") or []:
        if token.get("normalized"):
            not_covered("an added token with", "normalized")


def wordpiece_sections(document: Json, _: object = None) -> dict[str, bytes]:
    """Return the sections that only a WordPiece file has, as the embedder reads them."""
    model, normalizer = document["model"], document["normalizer"]
    vocabulary = model["vocab"]
    # No text is longer than a u32 can say.
    longest = min(model["max_input_chars_per_word"], (1 << 32) - 1)
    return {
        "words": array("I", [vocabulary[model["unk_token"]], longest]).tobytes(),
        "token_slots": id_slots(vocabulary),
        "prefixes": prefix_bits(vocabulary),
        "continuation": model["continuing_subword_prefix"].encode(),
        **character_sections(
            clean_text=normalizer["clean_text"],
            handle_chinese_chars=normalizer["handle_chinese_chars"],
            strip_accents=normalizer.get("strip_accents"),
            lowercase=normalizer["lowercase"],
        ),
    }


REPLACEMENT = "\ufffd"
#: The number of texts per call of the library, and the separator between them.
_TOGETHER = 4096
_BETWEEN = "0"
_decompose = normalizers.NFD().normalize_str
#: The one mark of the highest combining class (240): all others that move are moved past it.
_HIGHEST = "\u0345"
#: All that `str.split()` splits at, in every version of Python that we run on.
PYTHON_SPACES = [character for character in map(chr, range(0x3001)) if character.isspace()]


class _Mark(NamedTuple):
    """A combining mark: its place in the canonical order, and whether it is not stripped."""

    place: int
    stays: bool


class _Changes(NamedTuple):
    """Results of the characters that do not stay as they are."""

    texts: dict[str, str]
    #: First code points of the pages that vanish as a whole; their characters are not in `texts`.
    gone: set[int]
    #: First code points of the other pages in which something changes.
    mixed: set[int]

    def of(self, character: str) -> str:
        """Return what becomes of any character."""
        if ord(character) & -PAGE in self.gone:
            return ""
        return self.texts.get(character, character)


@cache
def character_sections(
    *, clean_text: bool, handle_chinese_chars: bool, strip_accents: bool | None, lowercase: bool
) -> Mapping[str, bytes]:
    """Return the sections `char_*`, `marks` and `odd_spaces` of a WordPiece file.

    The pre-tokenizer is BERT's; the arguments are those of the normalizer. Few are ever asked for,
    and each takes most of a second.
    """
    strips = lowercase if strip_accents is None else strip_accents
    bert = normalizers.BertNormalizer(clean_text, handle_chinese_chars, strips, lowercase)
    normal = _changes(bert.normalize_str)
    words = _as_words(normal)
    marks = _marks(normal, clean_text=clean_text) if strips else {}
    stay = {character for character, mark in marks.items() if mark.stays}
    if not stay.isdisjoint(words.texts):
        not_covered("a combining mark that is not a letter")
    words.texts.update({character: REORDERED + character for character in stay})
    for character, text in words.texts.items():
        if not text.startswith(REORDERED) and not stay.isdisjoint(text):
            words.texts[character] = REORDERED + text
    return {
        **paged(words.texts, words.gone),
        "marks": array(
            "I", [number for mark, about in marks.items() for number in (ord(mark), *about)]
        ).tobytes(),
        "compounds": "".join(_compounds(marks, normal) if strips else ()).encode(),
        "odd_spaces": "".join(
            character for character in PYTHON_SPACES if words.of(character) != " "
        ).encode(),
    }


def _changes(normalize: Callable[[str], str]) -> _Changes:
    """Return the normalizer's output for each character alone.

    A lone surrogate is not a character and never occurs in valid text; it is treated as U+FFFD.
    """
    changes = _Changes({}, set(), set())
    for start, page in character_pages():
        together = normalize(page)
        if not together:
            changes.gone.add(start)
        elif together != page:
            changes.mixed.add(start)
            changed = zip(page, _each(normalize, page), strict=True)
            changes.texts.update({before: after for before, after in changed if after != before})
    changes.texts.update(dict.fromkeys(map(chr, SURROGATES), changes.of(REPLACEMENT)))
    return changes


def _each(normalize: Callable[[str], str], texts: Iterable[str]) -> Iterator[str]:
    """Yield the normalizer's output for each text, with thousands of texts per call.

    A digit separates them: no other character becomes a digit, and no mark moves past one.
    """
    remaining = iter(texts)
    while several := list(islice(remaining, _TOGETHER)):
        if _BETWEEN in "".join(several):
            yield from map(normalize, several)
        else:
            yield from normalize(_BETWEEN.join(["", *several])).split(_BETWEEN)[1:]


def _as_words(normal: _Changes) -> _Changes:
    """Replace spaces by U+0020 and put spaces around characters that are split off."""
    separated = _split_kinds(
        sorted({character for text in normal.texts.values() for character in text})
    )
    words = {
        character: "".join(separated.get(piece, piece) for piece in text)
        for character, text in normal.texts.items()
    }
    for start, page in character_pages():
        if start in normal.mixed:
            unchanged = [character for character in page if character not in normal.texts]
            words.update(_split_kinds(unchanged))
        elif start not in normal.gone:
            words.update(_split_kinds(page))
    return _Changes(words, normal.gone, {ord(character) & -PAGE for character in words})


def _split_kinds(characters: Sequence[str]) -> dict[str, str]:
    """Return the pre-tokenizer's output for the characters that are not letters.

    It is a space, or the character itself between spaces.
    """
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    if len(split("a" + "".join(characters) + "a")) == 1:
        return {}
    separated = dict.fromkeys(characters, " ")
    # Each is put between two letters: a character that is split off is alone at an odd position, a
    # letter is in a longer piece, and a space is in none.
    for _, (start, stop) in split("a" + "a".join(characters) + "a"):
        for character in characters[start // 2 : stop // 2]:
            if stop - start > 1:
                del separated[character]
            else:
                separated[character] = f" {character} "
    return separated


def _marks(normal: _Changes, *, clean_text: bool) -> dict[str, _Mark]:
    """Return the marks that are there when the library sorts them.

    What cleaning removes is gone before that.
    """
    cleaner = normalizers.BertNormalizer(
        clean_text=clean_text, handle_chinese_chars=False, strip_accents=False, lowercase=False
    )
    cleaned = _changes(cleaner.normalize_str)
    moved = [_HIGHEST]
    fixed = []
    for start, page in character_pages():
        if start in cleaned.gone:
            continue
        cleaned_page = "".join(filter(cleaned.of, page)) if start in cleaned.mixed else page
        between = _HIGHEST.join(["", *cleaned_page])
        if _decompose(between) != between:
            alone = _each(_decompose, cleaned_page)
            behind = _each(_decompose, (_HIGHEST + character for character in cleaned_page))
            moved += [
                character
                for character, decomposed, sorted_ in zip(cleaned_page, alone, behind, strict=True)
                if decomposed == character and sorted_ != _HIGHEST + character
            ]
        if start in normal.gone or start in normal.mixed:
            fixed += [character for character in cleaned_page if not normal.of(character)]
    orders = _places(moved)
    for mark in orders:
        if normal.of(mark) not in {"", mark}:
            not_covered("a combining mark that becomes another one,", f"U+{ord(mark):04X}")
    combining = {mark: _Mark(0, stays=False) for mark in fixed}
    for mark, order in sorted(orders.items()):
        combining[mark] = _Mark(order, stays=bool(normal.of(mark)))
    return combining


def _compounds(marks: Mapping[str, _Mark], normal: _Changes) -> Iterator[str]:
    """Give each character that is one or two other stripped marks, followed by two characters.

    In all of Unicode these are U+0344 and three vowels of Tibetan, with two marks, and U+0340,
    U+0341 and U+0343, with one mark and U+0000.
    """
    for character, text in normal.texts.items():
        if not text and character in marks:
            decomposed = _decompose(character)
            if decomposed != character and all(mark in marks for mark in decomposed):
                yield character + decomposed.ljust(2, "\0")


def _places(marks: Sequence[str]) -> dict[str, int]:
    """Return each mark's place in the canonical order, from 1; equal classes share a place.

    A mark that comes before another is moved past it exactly if its class is the larger one.
    """
    classes: list[str] = []  # one mark of each class, in their order

    def moves(first: str, second: str) -> bool:
        return _decompose(f"a{first}{second}") != f"a{first}{second}"

    def smaller(mark: str) -> int:
        return sum(moves(mark, neighbor) for neighbor in classes)

    for mark in marks:
        at = smaller(mark)
        if at == len(classes) or moves(classes[at], mark):
            classes.insert(at, mark)
    return {mark: 1 + smaller(mark) for mark in marks}


def paged(texts: Mapping[str, str], gone: Collection[int] = ()) -> dict[str, bytes]:
    """Return the sections `char_*`, as `fast_tokenizers.table_file` reads them.

    `texts` has what becomes of the characters that do not stay as they are, and `gone` the first
    code points of pages that vanish as a whole.
    """
    pool = bytearray()
    code_by_text: dict[str, int] = {}
    mixed = {ord(character) & -PAGE for character in texts}

    def code_of(character: str) -> int:
        text = texts.get(character)
        if text is None:
            return 0
        fixed = {"": 1, " ": 2, f" {character} ": 3}.get(text)
        if fixed is not None:
            return fixed
        if text not in code_by_text:
            utf8 = text.encode("utf-8", "surrogatepass")
            code_by_text[text] = 4 + (len(pool) << 8 | len(utf8))
            pool.extend(utf8)
        return code_by_text[text]

    same = bytes(4 * PAGE)
    vanished = array("I", [1] * PAGE).tobytes()

    def page_of(start: int) -> bytes:
        if start in mixed:
            characters = map(chr, range(start, start + PAGE))
            return array("I", map(code_of, characters)).tobytes()
        return vanished if start in gone else same

    pages, codes = deduplicated(map(page_of, range(0, CHARACTERS, PAGE)))
    return {"char_pages": pages, "char_codes": codes, "char_text": bytes(pool)}
