"""Tables for Unigram: the trie of all tokens, their scores, and the steps before the model."""

from array import array
from collections.abc import Mapping, Sequence
from itertools import groupby

import orjson
import tokenizers

from embedder.core.fast_tokenizers.added_tokens import WHITE_SPACE
from embedder.core.fast_tokenizers.character_map import KINDS
from embedder.core.fast_tokenizers.characters import REORDERED
from embedder.core.fast_tokenizers.unigram_text import Options
from model_compiler.tokenizer.character_tables import paged
from model_compiler.tokenizer.charsmap import read_charsmap
from model_compiler.tokenizer.coverage import Json, not_covered
from model_compiler.tokenizer.grapheme_tables import character_kinds
from model_compiler.tokenizer.unigram_coverage import Steps

__all__ = ["unigram_sections"]

#: What the library subtracts from the lowest score for an unknown character.
_UNKNOWN_PENALTY = 10.0
_WHOLE = 1 << 31
_PAGE = 256
_CHARACTERS = 0x110000
_KEY = 128
_SURROGATES = range(0xD800, 0xE000)
_REPLACEMENT = "\ufffd"
#: Letters and syllables of Hangul, the only clusters that the embedder's pattern leaves out.
_HANGUL = (
    range(0x1100, 0x1200),
    range(0xA960, 0xA980),
    range(0xAC00, 0xD7A4),
    range(0xD7B0, 0xD800),
)
#: What joins the cluster before it.
_MARKS = "elusz"


def unigram_sections(
    library: tokenizers.models.Unigram, model: Json, steps: Steps
) -> dict[str, bytes]:
    """Return the sections that only a Unigram file has, as `fast_tokenizers.unigram` reads them.

    Args:
        library: The library's model, which is asked what each token's own text becomes.
        model: The part `model` of tokenizer.json.
        steps: What happens to a text before.

    Raises:
        NotCoveredError: If the character map has keys that the tables cannot say.
    """
    texts = [text for text, _ in model["vocab"]]
    # The library's JSON reader does not round to the nearest number, and the last bit decides ties.
    scores = [score for _, score in orjson.loads(library.__getstate__())["vocab"]]
    replaced = read_charsmap(steps.charsmap) if steps.charsmap else {}
    fallback = bool(model.get("byte_fallback"))
    options = Options(
        unknown=model["unk_id"],
        longest=max(map(len, texts)),
        map=steps.charsmap is not None,
        strip_left=steps.strip_left,
        strip_right=steps.strip_right,
        collapse=steps.collapse,
        replace=steps.replace,
        words=steps.words,
        metaspace=steps.metaspace,
        split=steps.split,
        prefix=steps.prefix,
        bytes=fallback,
    )
    sections = {
        "options": array("I", map(int, options)).tobytes(),
        "scores": array("d", [*scores, min(scores) - _UNKNOWN_PENALTY]).tobytes(),
        **_trie_sections(texts, library),
        "odd_spaces": _odd_spaces(steps, replaced).encode(),
    }
    if fallback:
        ids = {text: token_id for token_id, text in enumerate(texts)}
        byte_ids = [ids[f"<0x{byte:02X}>"] for byte in range(256)]
        sections["byte_ids"] = array("I", byte_ids).tobytes()
    if steps.charsmap is not None:
        sections |= _map_sections(replaced)
    return sections


def _trie_sections(texts: Sequence[str], library: tokenizers.models.Unigram) -> dict[str, bytes]:
    """Return the trie, one depth after another: a node's children are next to each other."""
    ids = {text: token_id for token_id, text in enumerate(texts)}
    listed = sorted(texts)
    letters, starts, tokens = array("I", [0]), array("I"), array("I")
    nodes = [(0, len(listed))]  # The tokens that begin with the node's text.
    depth = 0
    while nodes:
        following = []
        for first, last in nodes:
            token = 0
            if depth and len(listed[first]) == depth:
                token = ids[listed[first]] + 1
                if [own.id for own in library.tokenize(listed[first])] == [token - 1]:
                    token |= _WHOLE
            tokens.append(token)
            starts.append(len(letters))
            below = range(first + bool(token), last)
            for letter, group in groupby(below, lambda at: listed[at][depth]):  # noqa: B023
                tokens_below = list(group)
                letters.append(ord(letter))
                following.append((tokens_below[0], tokens_below[-1] + 1))
        nodes = following
        depth += 1
    starts.append(len(letters))
    return {
        "trie_letters": letters.tobytes(),
        "trie_starts": starts.tobytes(),
        "trie_tokens": tokens.tobytes(),
    }


def _odd_spaces(steps: Steps, replaced: Mapping[str, str]) -> str:
    """Return the characters that `str.split()` splits at, and this tokenizer does not."""
    spaces = WHITE_SPACE if steps.words else frozenset(" ")
    become = {
        character: replaced.get(character, character)
        for character in map(chr, range(0x3001))
        if character.isspace()
    }
    become["\r"] += replaced.get("\r\n", "")  # One cluster.
    return "".join(
        character for character, text in become.items() if not text or not spaces.issuperset(text)
    )


def _map_sections(replaced: Mapping[str, str]) -> dict[str, bytes]:
    kinds = character_kinds()
    texts = {key: text for key, text in replaced.items() if len(key) == 1}
    composed = {key: text for key, text in replaced.items() if len(key) > 1 and key[0] not in texts}
    for key in replaced:
        if any(ord(key[0]) in block for block in _HANGUL):
            not_covered("a character map with Hangul:", f"U+{ord(key[0]):04X}")
    keys = set(texts)
    # A lone surrogate is not a character; it becomes what U+FFFD becomes.
    surrogate = texts.get(_REPLACEMENT, _REPLACEMENT)
    texts |= dict.fromkeys(map(chr, _SURROGATES), surrogate)
    for character, kind in kinds.items():
        if kind in _MARKS or kind == "p":
            texts[character] = REORDERED + texts.get(character, character)
    pages, codes, pool = paged(texts)
    kind_pages, kinds_of_pages = _kind_pages(kinds, keys)
    return {
        "char_pages": pages,
        "char_codes": codes,
        "char_text": pool,
        "kind_pages": kind_pages,
        "kinds": kinds_of_pages,
        "composed": "".join(f"{key}\0{text}\0" for key, text in sorted(composed.items())).encode(),
    }


def _kind_pages(kinds: Mapping[str, str], keys: set[str]) -> tuple[bytes, bytes]:
    special = {ord(character) & -_PAGE for character in (*kinds, *keys)}
    numbers: dict[bytes, int] = {}
    pages = array("H")
    for start in range(0, _CHARACTERS, _PAGE):
        page = bytes(_PAGE)
        if start in special:
            page = bytes(
                KINDS.index(kinds.get(character, KINDS[0])) | (_KEY if character in keys else 0)
                for character in map(chr, range(start, start + _PAGE))
            )
        pages.append(numbers.setdefault(page, len(numbers)))
    return pages.tobytes(), b"".join(numbers)
