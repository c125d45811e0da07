"""The parts of a `tokenizer.json` with BPE that the fast tokenizers know; see `coverage`."""

from collections.abc import Mapping
from typing import Any

from model_compiler.tokenizer.coverage import (
    check_vocabulary,
    not_covered,
    only_keys,
)

__all__ = ["check_byte_level", "check_byte_pair_encoding", "is_byte_level"]

Json = Mapping[str, Any]

#: Falsy values are all read as None. `fuse_unk` is about unknown tokens: with a token for each byte
#: there are none.
_BPE_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "dropout": (None,),
    "continuing_subword_prefix": (None,),
    "end_of_word_suffix": (None,),
    "fuse_unk": (None, True),
    "byte_fallback": (True,),
    "ignore_merges": (None,),
}
#: With a token for each byte, nothing falls back. The look-up of whole tokens has `ignore_merges`.
_BYTE_LEVEL_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "byte_fallback": (None,),
    "ignore_merges": (None, True),
}


def check_byte_pair_encoding(document: Json) -> None:
    """Check that the fast BPE covers the normalizer, pre-tokenizer and model (Gemma's are meant).

    Raises:
        NotCoveredError: If it does not.
    """
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
    only_keys(
        model,
        {"type", "vocab", "merges", "unk_token", *_BPE_OPTIONS},
        "the model",
    )
    for option, covered in _BPE_OPTIONS.items():
        if (model.get(option) or None) not in covered:
            not_covered(f"the model's {option}", model.get(option))
    if any(f"<0x{byte:02X}>" not in model["vocab"] for byte in range(256)):
        not_covered("byte_fallback without", "a token for each byte")
    check_vocabulary(model["vocab"])


def is_byte_level(document: Json) -> bool:
    """Say whether the pre-tokenizer writes a text as bytes."""
    pre_tokenizer = document.get("pre_tokenizer") or {}
    parts = pre_tokenizer.get("pretokenizers") or [pre_tokenizer]
    return any(part.get("type") == "ByteLevel" for part in parts)


def check_byte_level(document: Json) -> None:
    """Check that the fast byte-level BPE covers the normalizer, pre-tokenizer and model.

    Raises:
        NotCoveredError: If it does not.
    """
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
    model = document["model"]
    only_keys(model, {"type", "vocab", "merges", "unk_token", *_BPE_OPTIONS}, "the model")
    for option, covered in {**_BPE_OPTIONS, **_BYTE_LEVEL_OPTIONS}.items():
        if (model.get(option) or None) not in covered:
            not_covered(f"the model's {option}", model.get(option))
    for token in document.get("added_tokens") or []:
        # The library looks for the normalized token.
        if token.get("normalized") and not token["content"].isascii():
            not_covered("a normalized added token beyond ASCII:", ascii(token["content"]))
    check_vocabulary(model["vocab"])


def _check_split(pre_tokenizer: Json, options: set[str]) -> None:
    """Check that a sequence is a Split by a regular expression and a ByteLevel without one."""
    parts = pre_tokenizer.get("pretokenizers") or []
    kinds = [part.get("type") for part in parts]
    if pre_tokenizer["type"] != "Sequence" or kinds != ["Split", "ByteLevel"]:
        not_covered("pre_tokenizer", " ".join(map(str, [pre_tokenizer["type"], *kinds])))
    split, byte_level = parts
    for option, covered in {"behavior": "Isolated", "invert": False}.items():
        if split.get(option) != covered:
            not_covered(f"the pre_tokenizer's {option}", split.get(option))
    if set(split["pattern"]) != {"Regex"}:
        not_covered("the pre_tokenizer's pattern", ", ".join(split["pattern"]))
    only_keys(split, {"type", "pattern", "behavior", "invert"}, "the pre_tokenizer")
    only_keys(byte_level, options, "the pre_tokenizer")
    for option in ("add_prefix_space", "use_regex"):
        if byte_level.get(option, True):
            not_covered("pre_tokenizer Split, then ByteLevel with", option)
