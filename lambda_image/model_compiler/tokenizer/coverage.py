"""`tokenizer.json`, read strictly: each part is known to the fast tokenizers, or named as a reason.

The format is that of Hugging Face's `tokenizers`; its source is the reference for what each part
means (https://github.com/huggingface/tokenizers). What makes tables of a part raises a
NotCoveredError where they would not be exact.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

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
#: Post-processors that put tokens around a text and leave its own ids alone.
_POST_PROCESSORS = {"TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"}
_ADDED_TOKEN = {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}


class NotCoveredError(Exception):
    """The fast tokenizers do not cover a part; the message names it."""


def check_parts(document: Json) -> None:
    """Check what both models share: the list of parts, the post-processor, the added tokens."""
    only_keys(document, _PARTS, "tokenizer.json")
    for post in _post_processors(document):
        if post.get("type") not in _POST_PROCESSORS:
            not_covered("post_processor", post.get("type"))
    added = document.get("added_tokens") or []
    for token in added:
        only_keys(token, _ADDED_TOKEN, "an added token")
        if token.get("single_word"):
            not_covered("an added token with", "single_word")
    # White space that was stripped after a token would match again as another token.
    strips = any(token.get("rstrip") for token in added)
    if strips and any(token["content"][:1].isspace() for token in added):
        not_covered("an added token with rstrip next to one that", "begins with white space")


def _post_processors(document: Json) -> list[Json]:
    post = document.get("post_processor")
    if post is None:
        return []
    return post["processors"] if post.get("type") == "Sequence" else [post]


def check_options(
    part: Json, covered: Mapping[str, tuple[object, ...]], others: set[str], name: str
) -> None:
    """Check that each option of a part has a value that is covered; falsy ones are read as None.

    It may have other keys of any value, and no more.
    """
    only_keys(part, {*covered, *others}, name)
    for option, values in covered.items():
        if (part.get(option) or None) not in values:
            not_covered(f"{name}'s {option}", part.get(option))


def only_keys(part: Json, known: set[str], name: str) -> None:
    """Check that a part has no other keys than the known ones; `name` is for the message."""
    unknown = sorted(set(part) - known)
    if unknown:
        not_covered(f"{name}: unknown", ", ".join(unknown))


def not_covered(part: str, *found: object) -> NoReturn:
    """Raise an error that names a part of the tokenizer and, if given, the value found there."""
    raise NotCoveredError(" ".join(["the fast tokenizers do not cover", part, *map(str, found)]))
