"""Unigram: which steps lead from a text to its pieces, and the tables for them.

The forms are those that transformers writes for SentencePiece models (`convert_slow_tokenizer.py`
and the tokenizers of XLM-RoBERTa, T5 and others, of versions 4 and 5).
"""

import base64
import binascii
from array import array
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson
import tokenizers

from embedder.core.fast_tokenizers.added_tokens import WHITE_SPACE
from embedder.core.fast_tokenizers.character_map import CHARACTER_CLASSES
from embedder.core.fast_tokenizers.table_file import REORDERED
from embedder.core.fast_tokenizers.unigram import ALWAYS, FIRST, NEVER, SPACE, UnigramOptions
from model_compiler.tokenizer.character_map import character_kinds, read_charsmap
from model_compiler.tokenizer.coverage import Json, not_covered, only_keys
from model_compiler.tokenizer.table_file import CHARACTERS, PAGE, SURROGATES, deduplicated
from model_compiler.tokenizer.wordpiece import PYTHON_SPACES, REPLACEMENT, paged

#: The sum of all scores of any text is a number, and never infinite.
_LARGEST_SCORE = 1e30


def check_unigram(document: Json) -> dict[str, Any]:
    """Check that the fast Unigram covers the normalizer, pre-tokenizer and model.

    Returns the steps that are there: fields of `UnigramOptions`, and `charsmap`, a map of
    characters.
    """
    steps = {
        **_normalizer_steps(document.get("normalizer")),
        **_pre_tokenizer_steps(document.get("pre_tokenizer")),
    }
    if steps.get("prefix") == FIRST and (steps.get("words") or steps.get("strip_left")):
        # A `▁` would depend on which character the first one that is left comes from.
        not_covered("prepend_scheme first after", "WhitespaceSplit or Strip on the left")
    model = document["model"]
    only_keys(model, {"type", "vocab", "unk_id", "byte_fallback"}, "the model")
    if model.get("unk_id") is None:
        not_covered("a model without", "unk_id")
    texts = [text for text, _ in model["vocab"]]
    if not all(abs(score) < _LARGEST_SCORE for _, score in model["vocab"]):
        not_covered("a score that is not below", _LARGEST_SCORE)
    if model.get("byte_fallback") and any(f"<0x{byte:02X}>" not in texts for byte in range(256)):
        not_covered("byte_fallback without", "a token for each byte")
    return steps


def _parts(part: Json | None, name: str) -> list[Json]:
    if part is None:
        return []
    if part.get("type") != "Sequence":
        return [part]
    only_keys(part, {"type", name}, "a sequence")
    return list(part[name])


#: The patterns and contents of `Replace` that are known.
_COLLAPSES = [({"Regex": " {2,}"}, " "), ({"Regex": " {2,}"}, SPACE)]
_SPACES = ({"String": " "}, SPACE)


#: The keys of each step of a normalizer besides its type.
_KEYS = {
    "Precompiled": {"precompiled_charsmap"},
    "Strip": {"strip_left", "strip_right"},
    "Replace": {"pattern", "content"},
}


def _normalizer_steps(normalizer: Json | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    steps: dict[str, Any]
    stage = 0
    for step in _parts(normalizer, "normalizers"):
        kind = str(step.get("type"))
        replaced = (step["pattern"], step["content"]) if kind == "Replace" else None
        if kind == "Precompiled":
            position, steps = 1, {"charsmap": _bytes(step["precompiled_charsmap"])}
        elif kind == "Strip":
            position, steps = 2, {key: step[key] for key in ("strip_left", "strip_right")}
        elif replaced in _COLLAPSES:
            position, steps = 3, {"collapse": 1 + _COLLAPSES.index(replaced)}
        elif replaced == _SPACES:
            position, steps = 4, {"replace": True}
        else:
            not_covered("normalizer", kind)
        only_keys(step, {"type", *_KEYS[kind]}, "the normalizer")
        if position <= stage:
            not_covered("this order of normalizers:", kind)
        options |= steps
        stage = position
    return options


def _pre_tokenizer_steps(pre_tokenizer: Json | None) -> dict[str, Any]:
    listed = _parts(pre_tokenizer, "pretokenizers")
    words = len(listed) == 2 and listed[0] == {"type": "WhitespaceSplit"}
    if words:
        del listed[0]
    if not listed:
        return {}
    metaspace = listed[0]
    if len(listed) > 1 or metaspace.get("type") != "Metaspace":
        not_covered("pre_tokenizer", ", ".join(str(step.get("type")) for step in listed))
    only_keys(
        metaspace,
        {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"},
        "the pre_tokenizer",
    )
    if metaspace["replacement"] != SPACE:
        not_covered("a pre_tokenizer with the replacement", metaspace["replacement"])
    # The defaults are the library's, for files of older versions.
    scheme = (
        "never" if metaspace.get("add_prefix_space") is False else metaspace.get("prepend_scheme")
    )
    return {
        "words": words,
        "metaspace": True,
        "split": metaspace.get("split") is not False,
        "prefix": {"never": NEVER, "first": FIRST, "always": ALWAYS}[scheme or "always"],
    }


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        not_covered("this character map:", error)


#: What the library subtracts from the lowest score for an unknown character.
_UNKNOWN_PENALTY = 10.0
_WHOLE = 1 << 31
_KEY = 128
#: Letters and syllables of Hangul, the only clusters that the embedder's pattern leaves out.
_HANGUL = (
    range(0x1100, 0x1200),
    range(0xA960, 0xA980),
    range(0xAC00, 0xD7A4),
    range(0xD7B0, 0xD800),
)
#: What joins the cluster before it.
_MARKS = "elusz"


def unigram_sections(document: Json, library: tokenizers.models.Unigram) -> dict[str, bytes]:
    """Return the sections that only a Unigram file has, as `fast_tokenizers.unigram` reads them."""
    model, steps = document["model"], check_unigram(document)
    texts = [text for text, _ in model["vocab"]]
    # The library's JSON reader does not round to the nearest number, and the last bit decides ties.
    scores = [score for _, score in orjson.loads(library.__getstate__())["vocab"]]
    charsmap = steps.pop("charsmap", None)
    replaced = read_charsmap(charsmap) if charsmap else {}
    fallback = bool(model.get("byte_fallback"))
    stated = {"unknown": model["unk_id"], "longest": max(map(len, texts)), "bytes": fallback}
    # Without a step, its flag is 0, and its number `NEVER`, which is 0.
    options = UnigramOptions(
        **{
            **dict.fromkeys(UnigramOptions._fields, 0),
            **stated,
            **steps,
            "map": charsmap is not None,
        }
    )
    sections = {
        "options": array("I", map(int, options)).tobytes(),
        "scores": array("d", [*scores, min(scores) - _UNKNOWN_PENALTY]).tobytes(),
        **_trie_sections(texts, library),
        "odd_spaces": _odd_spaces(replaced, words=options.words).encode(),
    }
    if fallback:
        ids = {text: token_id for token_id, text in enumerate(texts)}
        byte_ids = [ids[f"<0x{byte:02X}>"] for byte in range(256)]
        sections["byte_ids"] = array("I", byte_ids).tobytes()
    if charsmap is not None:
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
        for begin, end in nodes:
            token = 0
            if depth and len(listed[begin]) == depth:
                token = ids[listed[begin]] + 1
                if [own.id for own in library.tokenize(listed[begin])] == [token - 1]:
                    token |= _WHOLE
            tokens.append(token)
            starts.append(len(letters))
            below = range(begin + bool(token), end)
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


def _odd_spaces(replaced: Mapping[str, str], *, words: int) -> str:
    """Return the characters that `str.split()` splits at, and this tokenizer does not."""
    spaces = WHITE_SPACE if words else frozenset(" ")
    become = {character: replaced.get(character, character) for character in PYTHON_SPACES}
    become["\r"] += replaced.get("\r\n", "")  # One cluster.
    return "".join(
        character for character, text in become.items() if not text or not spaces.issuperset(text)
    )


def _map_sections(replaced: Mapping[str, str]) -> dict[str, bytes]:
    kind_by_character = character_kinds()
    texts = {key: text for key, text in replaced.items() if len(key) == 1}
    composed = {key: text for key, text in replaced.items() if len(key) > 1 and key[0] not in texts}
    for key in replaced:
        if any(ord(key[0]) in block for block in _HANGUL):
            not_covered("a character map with Hangul:", f"U+{ord(key[0]):04X}")
    keys = set(texts)
    # A lone surrogate is not a character; it becomes what U+FFFD becomes.
    texts |= dict.fromkeys(map(chr, SURROGATES), texts.get(REPLACEMENT, REPLACEMENT))
    for character, kind in kind_by_character.items():
        if kind in _MARKS or kind == "p":
            texts[character] = REORDERED + texts.get(character, character)
    kinds = bytearray(CHARACTERS)
    for character, kind in kind_by_character.items():
        kinds[ord(character)] = CHARACTER_CLASSES.index(kind)
    for key in keys:
        kinds[ord(key)] |= _KEY
    kind_pages, kinds_of_pages = deduplicated(
        bytes(kinds[start : start + PAGE]) for start in range(0, CHARACTERS, PAGE)
    )
    return {
        **paged(texts),
        "kind_pages": kind_pages,
        "kinds": kinds_of_pages,
        "composed": "".join(f"{key}\0{text}\0" for key, text in sorted(composed.items())).encode(),
    }
