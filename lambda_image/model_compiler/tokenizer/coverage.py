"""`tokenizer.json`, read strictly: each part is known to the fast tokenizers, or named as a reason.

The format is that of Hugging Face's `tokenizers`; its source is the reference for what each part
means (https://github.com/huggingface/tokenizers).
"""

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ["NotCoveredError", "check_byte_pair_encoding", "check_parts", "check_wordpiece"]

Json = Mapping[str, Any]

_PARTS = {
    "version",
    "truncation",  # the engine's business
    "padding",  # likewise
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",  # ids to text: not asked of an embedding model
    "model",
}
#: Post-processors that put tokens around a text and leave its own ids and offsets alone.
_POST_PROCESSORS = {"TemplateProcessing", "BertProcessing"}
_ADDED_TOKEN = {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}


class NotCoveredError(Exception):
    """The fast tokenizers do not cover a part; the message names it."""


def check_parts(document: Json) -> None:
    """Check what both models share: the list of parts, the post-processor, the added tokens.

    Raises:
        NotCoveredError: If a part is not covered.
    """
    _only_keys(document, _PARTS, "tokenizer.json")
    post = document.get("post_processor")
    if post is not None and post.get("type") not in _POST_PROCESSORS:
        _not_covered("post_processor", post.get("type"))
    added = document.get("added_tokens") or []
    for token in added:
        _only_keys(token, _ADDED_TOKEN, "an added token")
        if token.get("single_word"):
            _not_covered("an added token with", "single_word")
    # White space that was stripped after a token would match again as another token.
    strips = any(token.get("rstrip") for token in added)
    if strips and any(token["content"][:1].isspace() for token in added):
        _not_covered("an added token with rstrip beside one that", "begins with white space")


def check_wordpiece(document: Json) -> None:
    """Check that the fast WordPiece covers the normalizer, pre-tokenizer and model.

    Raises:
        NotCoveredError: If it does not.
    """
    normalizer = document.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer":
        _not_covered("normalizer", normalizer.get("type"))
    _only_keys(
        normalizer,
        {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"},
        "the normalizer",
    )
    pre_tokenizer = document.get("pre_tokenizer") or {}
    if pre_tokenizer != {"type": "BertPreTokenizer"}:
        _not_covered("pre_tokenizer", pre_tokenizer.get("type"))
    model = document["model"]
    _only_keys(
        model,
        {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
        "the model",
    )
    if model.get("unk_token") not in model["vocab"]:
        _not_covered("an unknown token that is not in the vocabulary:", model.get("unk_token"))
    for token in document.get("added_tokens") or []:
        if token.get("normalized"):
            _not_covered("an added token with", "normalized")
    _check_vocabulary(model["vocab"])


def check_byte_pair_encoding(document: Json) -> None:
    """Check that the fast BPE covers the normalizer, pre-tokenizer and model (Gemma's are meant).

    Raises:
        NotCoveredError: If it does not.
    """
    replace_spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    if document.get("normalizer") != replace_spaces:
        _not_covered("normalizer", (document.get("normalizer") or {}).get("type"))
    # The normalizer has removed all spaces, so the pre-tokenizer has nothing to split.
    split = {"type": "Split", "pattern": {"String": " "}, "invert": False}
    pre_tokenizer = dict(document.get("pre_tokenizer") or split)
    pre_tokenizer.pop("behavior", None)
    if pre_tokenizer != split:
        _not_covered("pre_tokenizer", pre_tokenizer.get("type"))
    model = document["model"]
    _only_keys(
        model,
        {"type", "vocab", "merges", "unk_token", *_BPE_OPTIONS},
        "the model",
    )
    for option, covered in _BPE_OPTIONS.items():
        if (model.get(option) or None) not in covered:
            _not_covered(f"the model's {option}", model.get(option))
    if any(f"<0x{byte:02X}>" not in model["vocab"] for byte in range(256)):
        _not_covered("byte_fallback without", "a token for each byte")
    _check_vocabulary(model["vocab"])


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


def _check_vocabulary(vocabulary: Mapping[str, int]) -> None:
    if "" in vocabulary:
        _not_covered("a vocabulary with", "an empty token")


def _only_keys(part: Json, known: set[str], name: str) -> None:
    unknown = sorted(set(part) - known)
    if unknown:
        _not_covered(f"{name}: unknown", ", ".join(unknown))


def _not_covered(part: str, found: object) -> NoReturn:
    raise NotCoveredError(f"the fast tokenizers do not cover {part} {found}")
