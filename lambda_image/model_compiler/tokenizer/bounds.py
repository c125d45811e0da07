"""Checks that a `tokenizer.json` asks for no more work than it may; the table is `files.limits`."""

import base64
import binascii
import math
from pathlib import Path
from typing import Any

from model_compiler.errors import SourceError
from model_compiler.files import limits
from model_compiler.files.limits import check_most, values_of

__all__ = ["check_bounds"]

#: How many times longer one step makes a text at most: a character has up to four bytes.
_STEPS = {"ByteLevel": 4}


def check_bounds(path: Path, document: dict[str, Any]) -> None:
    """Check the sizes of everything in the file.

    Raises:
        SourceError: If one is larger than allowed.
    """
    parts = dict(document)
    model = dict(parts.pop("model"))
    added = parts.pop("added_tokens", None)
    _check_texts(path, "model.vocab", model.pop("vocab", None), limits.VOCABULARY, limits.TOKEN)
    _check_texts(path, "model.merges", model.pop("merges", None), limits.MERGES, limits.MERGE)
    _check_texts(path, "added_tokens", added, limits.ADDED_TOKENS, limits.TOKEN)
    _check_part(f"{path}", [*parts])
    for name, part in {**parts, "model": model}.items():
        _check_part(f"{path}: {name}", part)
    steps = values_of([parts.get("normalizer"), parts.get("pre_tokenizer")])
    if math.prod(_growth(step) for step in steps if isinstance(step, dict)) > limits.GROWTH:
        raise SourceError(
            f"{path}: normalizer and pre_tokenizer can make a text more than {limits.GROWTH} times "
            "longer; allowed are steps that together do not."
        )


def _check_texts(path: Path, name: str, entries: Any, most: int, characters: int) -> None:
    """Check the number of tokens or merges, and the length of each."""
    if not isinstance(entries, (list, dict)):
        return
    check_most(f"{path}: {name}", len(entries), most, "entries")
    for entry in entries:  # a token, a token and its score, a merge, an added token
        parts = [*entry.values()] if isinstance(entry, dict) else entry
        for text in parts if isinstance(parts, list) else [parts]:
            if isinstance(text, str):
                check_most(f"{path}: an entry of {name}", len(text), characters, "characters")


def _check_part(name: str, part: Any) -> None:
    count = 0
    charsmaps: list[Any] = []
    for each in values_of(part):
        if isinstance(each, str):
            long = any(each is charsmap for charsmap in charsmaps)
            most = limits.CHARSMAP if long else limits.PART_STRING
            check_most(f"{name}: a string", len(each), most, "characters")
            continue
        count += len(each)
        if isinstance(each, dict):
            charsmaps.append(each.get("precompiled_charsmap"))
    check_most(name, count, limits.PART_VALUES, "values")


def _growth(step: dict[str, Any]) -> float:
    """Return how many characters a step can make of one."""
    kind = step.get("type")
    if kind == "Replace":
        pattern, content = step.get("pattern"), _length(step.get("content"))
        text = pattern.get("String") if isinstance(pattern, dict) else None
        # A regular expression may match between two characters.
        return max(1.0, content / len(text)) if isinstance(text, str) and text else 1.0 + content
    if kind == "Prepend":
        return 1.0 + _length(step.get("prepend"))
    if kind == "Precompiled":
        return _longest_replacement(step.get("precompiled_charsmap"))
    return _STEPS.get(kind, 1) if isinstance(kind, str) else 1


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else 0


def _longest_replacement(charsmap: Any) -> int:
    """Return the characters of the longest replacement, which ends with a NUL; see `charsmap`."""
    try:
        data = base64.b64decode(charsmap, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return 1  # the library refuses it
    replacements = data[4 + int.from_bytes(data[:4], "little") :]
    return max(len(each.decode(errors="replace")) for each in replacements.split(b"\0")) or 1
