"""A Unigram's `tokenizer.json`, read strictly: which steps lead from a text to its pieces.

The forms are those that transformers writes for SentencePiece models (`convert_slow_tokenizer.py`
and the tokenizers of XLM-RoBERTa, T5 and others, of versions 4 and 5).
"""

import base64
import binascii
from dataclasses import dataclass

from embedder.core.fast_tokenizers.unigram_text import ALWAYS, FIRST, NEVER, SPACE
from model_compiler.tokenizer.coverage import Json, not_covered, only_keys

__all__ = ["Steps", "check_unigram"]

#: The sum of all scores of any text is a number, and never infinite.
_LARGEST_SCORE = 1e30


@dataclass(slots=True)
class Steps:
    """The steps before the model, in their order; a step that is missing has its default."""

    #: A precompiled character map.
    charsmap: bytes | None = None
    strip_left: bool = False
    strip_right: bool = False
    #: What replaces two spaces or more: nothing, one space (1), or one `▁` (2).
    collapse: int = 0
    #: Whether the normalizer writes spaces as `▁`.
    replace: bool = False
    #: Whether the text is split at white space, before the step below.
    words: bool = False
    #: Whether a pre-tokenizer writes spaces as `▁` and splits before each.
    metaspace: bool = False
    split: bool = False
    prefix: int = NEVER


def check_unigram(document: Json) -> Steps:
    """Check that the fast Unigram covers the normalizer, pre-tokenizer and model.

    Raises:
        NotCoveredError: If it does not.
    """
    steps = Steps()
    _read_normalizer(document.get("normalizer"), steps)
    _read_pre_tokenizer(document.get("pre_tokenizer"), steps)
    if steps.prefix == FIRST and (steps.words or steps.strip_left):
        # A `▁` would depend on which character the first one that is left comes from.
        not_covered("prepend_scheme first after", "WhitespaceSplit or Strip on the left")
    model = document["model"]
    only_keys(model, {"type", "vocab", "unk_id", "byte_fallback"}, "the model")
    if model.get("unk_id") is None:
        not_covered("a model without", "unk_id")
    texts = [text for text, _ in model["vocab"]]
    if "" in texts:
        not_covered("a vocabulary with", "an empty token")
    if not all(abs(score) < _LARGEST_SCORE for _, score in model["vocab"]):
        not_covered("a score that is not below", _LARGEST_SCORE)
    if model.get("byte_fallback") and any(f"<0x{byte:02X}>" not in texts for byte in range(256)):
        not_covered("byte_fallback without", "a token for each byte")
    return steps


def _parts(part: Json | None, name: str) -> list[Json]:
    """Return the parts of a sequence, or the only one."""
    if part is None:
        return []
    if part.get("type") != "Sequence":
        return [part]
    only_keys(part, {"type", name}, "a sequence")
    return list(part[name])


def _read_normalizer(normalizer: Json | None, steps: Steps) -> None:
    last = 0
    for part in _parts(normalizer, "normalizers"):
        kind = part.get("type")
        if kind == "Precompiled":
            only_keys(part, {"type", "precompiled_charsmap"}, "the normalizer")
            steps.charsmap = _bytes(part["precompiled_charsmap"])
            place = 1
        elif kind == "Strip":
            only_keys(part, {"type", "strip_left", "strip_right"}, "the normalizer")
            steps.strip_left, steps.strip_right = part["strip_left"], part["strip_right"]
            place = 2
        elif kind == "Replace" and (part["pattern"], part["content"]) in _COLLAPSES:
            only_keys(part, {"type", "pattern", "content"}, "the normalizer")
            steps.collapse = 1 + _COLLAPSES.index((part["pattern"], part["content"]))
            place = 3
        elif kind == "Replace" and (part["pattern"], part["content"]) == _SPACES:
            only_keys(part, {"type", "pattern", "content"}, "the normalizer")
            steps.replace = True
            place = 4
        else:
            not_covered("normalizer", kind)
        if place <= last:
            not_covered("this order of normalizers:", kind)
        last = place


#: The patterns and contents of `Replace` that are known.
_COLLAPSES = [({"Regex": " {2,}"}, " "), ({"Regex": " {2,}"}, SPACE)]
_SPACES = ({"String": " "}, SPACE)


def _read_pre_tokenizer(pre_tokenizer: Json | None, steps: Steps) -> None:
    parts = _parts(pre_tokenizer, "pretokenizers")
    if len(parts) == 2 and parts[0] == {"type": "WhitespaceSplit"}:
        steps.words = True
        del parts[0]
    if not parts:
        return
    part = parts[0]
    if len(parts) > 1 or part.get("type") != "Metaspace":
        not_covered("pre_tokenizer", ", ".join(str(each.get("type")) for each in parts))
    only_keys(
        part,
        {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"},
        "the pre_tokenizer",
    )
    if part["replacement"] != SPACE:
        not_covered("a pre_tokenizer with the replacement", part["replacement"])
    steps.metaspace = True
    # The defaults are the library's, for files of older versions.
    steps.split = part.get("split") is not False
    scheme = "never" if part.get("add_prefix_space") is False else part.get("prepend_scheme")
    steps.prefix = {"never": NEVER, "first": FIRST, "always": ALWAYS}[scheme or "always"]


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        not_covered("this character map:", error)
