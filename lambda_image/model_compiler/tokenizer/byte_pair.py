"""Byte pair encoding, as Gemma has it and over bytes: its coverage, and the tables for it."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple
from unicodedata import combining, normalize

import tokenizers
from tokenizers import normalizers

from embedder.core.fast_tokenizers.byte_level import BYTE_ALPHABET
from model_compiler.tokenizer.coverage import Json, check_options, not_covered, only_keys
from model_compiler.tokenizer.table_file import (
    CHARACTERS,
    PAGE,
    character_pages,
    deduplicated,
    id_slots,
)

#: `fuse_unk` is about unknown tokens: with a token for each byte there are none.
_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "dropout": (None,),
    "continuing_subword_prefix": (None,),
    "end_of_word_suffix": (None,),
    "fuse_unk": (None, True),
    "byte_fallback": (True,),
    "ignore_merges": (None,),
}
#: The keys of a model that have any value.
_KEYS = {"type", "vocab", "merges", "unk_token"}
#: Ranks and ids have 20 bits each in a packed merge.
_MOST = 1 << 20


def check_byte_pair_encoding(document: Json) -> None:
    """Check that the fast BPE covers the normalizer, pre-tokenizer and model of Gemma."""
    replace_spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    if document.get("normalizer") != replace_spaces:
        not_covered("normalizer", (document.get("normalizer") or {}).get("type"))
    # The normalizer has removed all spaces, so the pre-tokenizer has nothing to split.
    split = {"type": "Split", "pattern": {"String": " "}, "invert": False}
    pre_tokenizer = dict(document.get("pre_tokenizer") or split)
    pre_tokenizer.pop("behavior", None)
    if pre_tokenizer != split:
        not_covered("pre_tokenizer", pre_tokenizer.get("type"))
    model = document["model"]
    check_options(model, _OPTIONS, _KEYS, "the model")
    if any(f"<0x{byte:02X}>" not in model["vocab"] for byte in range(256)):
        not_covered("byte_fallback without", "a token for each byte")


def byte_pair_sections(document: Json, model: tokenizers.models.BPE) -> dict[str, bytes]:
    """Return the sections that only a BPE file has, as `fast_tokenizers.bpe` reads them."""
    vocabulary = document["model"]["vocab"]
    bytes_ids = [vocabulary[f"<0x{byte:02X}>"] for byte in range(256)]
    pages, ids_of_characters = _characters(vocabulary)
    # The characters that some merge joins to a space after them. Between any other character and a
    # space no merge ever reaches across, so that words can be encoded one by one.
    merges = _ranked_pairs(document["model"]["merges"])
    glued = {start[-1] for start, end in merges if end[0] == "▁" and start[-1] != "▁"}
    return {
        "byte_ids": array("I", bytes_ids).tobytes(),
        "char_pages": pages,
        "char_ids": ids_of_characters,
        **merge_sections(document, model, apart=bytes_ids),
        "glued": "".join(sorted(glued)).encode(),
    }


def merge_sections(
    document: Json, model: tokenizers.models.BPE, *, apart: Collection[int] = ()
) -> dict[str, bytes]:
    """Return the merges, as the embedder's `merges` reads them, and the look-up of whole tokens.

    No merge may touch an id of `apart`. The library's `model` is asked what each token's own text
    becomes.
    """
    vocabulary, merges = document["model"]["vocab"], document["model"]["merges"]
    size = 1 + max(vocabulary.values())
    if size > _MOST or len(merges) > _MOST:
        not_covered("a vocabulary or merges over 2^20")
    fixed = set(apart)
    rows: list[list[int]] = [[] for _ in range(size)]
    for (start, end), rank in _ranked_pairs(merges).items():
        ids = vocabulary[start], vocabulary[end], vocabulary[start + end]
        if not fixed.isdisjoint(ids):
            not_covered("merges of bytes")
        rows[ids[0]].append(ids[1] << 40 | rank << 20 | ids[2])
    # The tokens that their text alone becomes: nearly all of them.
    unmerged = {
        text: token_id
        for text, token_id in vocabulary.items()
        if len(text) > 1 and [token.id for token in model.tokenize(text)] == [token_id]
    }
    return {
        "merge_starts": array("I", accumulate(map(len, rows), initial=0)).tobytes(),
        "merges": array("Q", [merge for row in rows for merge in sorted(row)]).tobytes(),
        "whole": id_slots(unmerged),
    }


def _ranked_pairs(merges: Sequence[str | Sequence[str]]) -> dict[tuple[str, str], int]:
    """Return the rank of each pair; of a pair that is listed twice the last rank counts."""
    pairs = {}
    for rank, merge in enumerate(merges):
        start, end = merge.split(" ") if isinstance(merge, str) else merge
        pairs[start, end] = rank
    return pairs


def _characters(vocabulary: Mapping[str, int]) -> tuple[bytes, bytes]:
    """Return the pages and the ids, plus 1, of all characters; 0 if a character has no token."""
    ids = {ord(token): token_id + 1 for token, token_id in vocabulary.items() if len(token) == 1}
    return deduplicated(
        array("I", [ids.get(code, 0) for code in range(start, start + PAGE)]).tobytes()
        for start in range(0, CHARACTERS, PAGE)
    )


#: The one mark of the highest combining class (240): all others are moved in front of it.
_HIGHEST = "\u0345"
#: Bit in the byte of a character: NFC may change it.
_COMPOSES = 0x80
#: Python's white space is the library's and U+001C to U+001F.
_SPACE = r"[^\S\x1c-\x1f]"
_NO_SPACE = r"[\S\x1c-\x1f]"
#: A token for each byte, so nothing falls back. The look-up of whole tokens has `ignore_merges`.
_BYTE_LEVEL_OPTIONS: Mapping[str, tuple[object, ...]] = {
    **_OPTIONS,
    "byte_fallback": (None,),
    "ignore_merges": (None, True),
}


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


def _by_numbers(numbers: str) -> tuple[str, _Split]:
    """Return an expression of `Split`, as in a `tokenizer.json`, by its words of numbers."""
    source = (
        rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{numbers}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return source, _Split(
        words=rf"'(?:[stmd]|re|ve|ll)|[^\na-z0]?[a-z]+|0{numbers}| ?['.]+\n*|\s*\n+|\s+(?!\S)|\s+",
        # Line breaks belong to punctuation in front of them, and white space to line breaks after.
        cut=f"{_SPACE}*{_NO_SPACE}+(?:(?<![A-Za-z0-9])[\\r\\n]{_SPACE}*{_NO_SPACE}*)*|{_SPACE}+",
        contractions="(?i:{})",
    )


#: The expressions that are covered: of Qwen 2 and 3, which takes each digit alone, and of Llama 3
#: and EuroBERT, which take up to three.
_SPLITS: Mapping[str, _Split] = dict([_by_numbers(""), _by_numbers("{1,3}")])


def is_byte_level(document: Json) -> bool:
    """Say whether the pre-tokenizer writes a text as bytes."""
    pre_tokenizer = document.get("pre_tokenizer") or {}
    steps = pre_tokenizer.get("pretokenizers") or [pre_tokenizer]
    return any(step.get("type") == "ByteLevel" for step in steps)


def check_byte_level(document: Json) -> None:
    """Check that the fast byte-level BPE covers the normalizer, pre-tokenizer and model."""
    normalizer = document.get("normalizer")
    if normalizer not in (None, {"type": "NFC"}):
        not_covered("normalizer", normalizer.get("type"))
    pre_tokenizer = document["pre_tokenizer"]
    options = {"type", "add_prefix_space", "trim_offsets", "use_regex"}
    if pre_tokenizer["type"] == "ByteLevel":
        only_keys(pre_tokenizer, options, "the pre_tokenizer")
        if not pre_tokenizer.get("use_regex", True):
            not_covered("pre_tokenizer ByteLevel without", "use_regex")
    else:
        _check_split(pre_tokenizer, options)
    check_options(document["model"], _BYTE_LEVEL_OPTIONS, _KEYS, "the model")
    for token in document.get("added_tokens") or []:
        # The library looks for the normalized token.
        if token.get("normalized") and not token["content"].isascii():
            not_covered("a normalized added token beyond ASCII:", ascii(token["content"]))


def _check_split(pre_tokenizer: Json, options: set[str]) -> None:
    """Check that a sequence is a Split by a regular expression and a ByteLevel without one."""
    steps = pre_tokenizer.get("pretokenizers") or []
    types = [step.get("type") for step in steps]
    if pre_tokenizer["type"] != "Sequence" or types != ["Split", "ByteLevel"]:
        not_covered("pre_tokenizer", " ".join(map(str, [pre_tokenizer["type"], *types])))
    split, byte_level = steps
    covered = {"behavior": ("Isolated",), "invert": (None,)}
    check_options(split, covered, {"type", "pattern"}, "the pre_tokenizer")
    if set(split["pattern"]) != {"Regex"}:
        not_covered("the pre_tokenizer's pattern", ", ".join(split["pattern"]))
    only_keys(byte_level, options, "the pre_tokenizer")
    for option in ("add_prefix_space", "use_regex"):
        if byte_level.get(option, True):
            not_covered("pre_tokenizer Split, then ByteLevel with", option)


def byte_level_sections(document: Json, model: tokenizers.models.BPE) -> dict[str, bytes]:
    """Return the sections that only a byte-level file has, as the embedder reads them."""
    vocabulary: Mapping[str, int] = document["model"]["vocab"]
    if not vocabulary.keys() >= set(BYTE_ALPHABET):
        not_covered("bytes without a token")
    composes = document.get("normalizer") is not None
    pre_tokenizer = document["pre_tokenizer"]
    # `check_byte_level` accepts a prefix space with GPT-2's own expression only.
    prefix_space = pre_tokenizer.get("add_prefix_space", False)
    split = _split(pre_tokenizer)
    pages, alike = _alike(split, composes=composes)
    return {
        "byte_ids": array("I", [vocabulary[character] for character in BYTE_ALPHABET]).tobytes(),
        **merge_sections(document, model),
        "alike_pages": pages,
        "alike": alike,
        "cut": split.cut.encode(),
        "split": split.words.encode(),
        "options": bytes([prefix_space, composes]),
    }


def _split(pre_tokenizer: Json) -> _Split:
    if pre_tokenizer["type"] == "ByteLevel":
        return _GPT2
    split = _SPLITS.get(pre_tokenizer["pretokenizers"][0]["pattern"]["Regex"])
    if split is None:
        not_covered("the regular expression of Split")
    return split


@cache
def _alike(split: _Split, *, composes: bool) -> tuple[bytes, bytes]:
    """Return page numbers and pages of all characters' stand-ins; takes most of a second."""
    stand_ins = bytearray(b"." * CHARACTERS)

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
    return deduplicated(
        bytes(stand_ins[start : start + PAGE]) for start in range(0, CHARACTERS, PAGE)
    )


def _matching(expression: str) -> Iterator[str]:
    """Give the characters that a regular expression of the library matches alone."""
    remove = normalizers.Replace(tokenizers.Regex(expression), "").normalize_str
    for _, page in character_pages():
        unmatched = remove(page)
        if unmatched != page:
            characters = set(unmatched)
            yield from (character for character in page if character not in characters)


def _composing() -> frozenset[str]:
    """Return all characters that take part in compositions or have a place among marks."""
    compose, decompose = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    composing: set[str] = set()
    for _, page in character_pages():
        decomposed = decompose(page)
        if decomposed == page and compose(page) == page and not any(map(combining, page)):
            continue
        for character in page:
            decomposition = decompose(character)
            if decomposition != character or compose(character) != character:
                composing.update((character, *decomposition))
            # One that the library does not know as a mark is not moved in front of another.
            elif decompose(_HIGHEST + character) != _HIGHEST + character:
                composing.add(character)
    for character in composing:
        if normalize("NFD", character) != decompose(character) or normalize(
            "NFC", character
        ) != compose(character):
            not_covered("the normalization of", f"U+{ord(character):04X}")
    return frozenset(composing)
