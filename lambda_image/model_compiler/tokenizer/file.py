"""Reads a model's `tokenizer.json` and checks that it belongs to the model.

It may ask for no more work than the limits here allow; see `files.config` for how they are chosen.
"""

import base64
import binascii
import json
import math
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from model_compiler.errors import SourceError, described
from model_compiler.files.config import check_most, read_file, read_json, unified_lines, values_of
from model_compiler.files.folder import ConfigFolder
from model_compiler.tokenizer.classes import lowercases
from model_compiler.tokenizer.settings import built_document, read_settings

#: How many rows of the embedding table may lie unused at its end. Tables are padded to round sizes.
UNUSED_SHARE = 0.05
UNUSED_ROWS = 1024

#: Tokens of a vocabulary. 901,629: XLM-V.
VOCABULARY = 1_500_000
#: Merges of a BPE. 580,604: Gemma.
MERGES = 5_000_000
#: Characters of a token. Some 100: runs of spaces. The time that it takes to look for a token in a
#: text grows with the token's length.
TOKEN = 512
#: Characters of a merge: two tokens and a space.
MERGE = 2 * TOKEN + 1
#: Tokens besides the vocabulary. 6,414: Gemma.
ADDED_TOKENS = 100_000
#: Values in a normalizer, pre-tokenizer, post-processor or decoder, all levels together. Some 40.
PART_VALUES = 1_000
#: Characters of a string in one of them. Some 1,500: regular expressions with classes of letters.
PART_STRING = 1 << 14
#: Characters of a map of characters in base64. 320,000: SentencePiece's.
CHARSMAP = 4_000_000
#: How many times longer a tokenizer may make a text. 36: XLM-RoBERTa, with that map.
GROWTH = 1_000


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """A `tokenizer.json`, without what does not change the ids of a text.

    `data` is its content as canonical JSON (UTF-8, sorted keys, no spaces): the truncation and the
    padding are null, and added tokens that the model has no row for are gone.
    """

    data: bytes
    lowercases: bool
    #: Contents of added tokens that were dropped because the model has no row for them.
    dropped: tuple[str, ...]
    #: The limit of tokens in `tokenizer_config.json`; None without one.
    max_tokens: float | None = None
    #: The ids of the special tokens by their keys, such as `cls_token`.
    special: Mapping[str, int] = field(default_factory=dict)


def read_tokenizer(folder: ConfigFolder, *, vocabulary_size: int) -> TokenizerFile:
    """Read the file in a folder for a model with an embedding table of `vocabulary_size` rows."""
    path = folder.path / "tokenizer.json"
    document = (None if path.exists() else _from_vocabulary(folder)) or read_json(path)
    return checked_tokenizer(folder, document, vocabulary_size=vocabulary_size)


def checked_tokenizer(
    folder: ConfigFolder, document: Any, *, vocabulary_size: int, alone: bool = False
) -> TokenizerFile:
    """Check the content of a folder's `tokenizer.json`, which is changed; see `read_tokenizer`.

    `alone` says that the model's own library reads no other file of the tokenizer.
    """
    path = folder.path / "tokenizer.json"
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise SourceError(f"{path} is not a file of the tokenizers library: it has no model.")
    _check_bounds(path, document)
    for name in ("normalizer", "pre_tokenizer", "post_processor"):
        _check_step(path, name, document.get(name))
    added = document.get("added_tokens") or []
    if not isinstance(added, list) or not all(map(_is_added_token, added)):
        raise SourceError(
            f"{path}: added_tokens must be a list of objects, each with an id of at least 0 and a "
            "content."
        )
    max_tokens, special = (None, {}) if alone else read_settings(folder, document)
    # Some text models' tokenizers list tokens of a multimodal model: their ids have no row.
    with_rows = [token for token in added if token["id"] < vocabulary_size]
    dropped = tuple(token["content"] for token in added if token["id"] >= vocabulary_size)
    document["added_tokens"] = with_rows
    vocabulary = document["model"].get("vocab")
    if isinstance(vocabulary, dict):
        for token in dropped:
            vocabulary.pop(token, None)
    ids = _vocabulary_ids(path, vocabulary)
    if not isinstance(unknown := document["model"].get("unk_token"), str | None):
        _refuse(path, "model.unk_token", "a string or null", unknown)
    _check_size(path, ids | {token["id"] for token in with_rows}, vocabulary_size)
    document["truncation"] = document["padding"] = None
    return TokenizerFile(
        data=_canonical(document),
        lowercases=lowercases(document.get("normalizer")),
        dropped=dropped,
        max_tokens=max_tokens,
        special=special,
    )


def _from_vocabulary(folder: ConfigFolder) -> dict[str, Any] | None:
    """Return the `tokenizer.json` of a folder with a `vocab.txt` alone, a token on each line."""
    vocabulary = folder.path / "vocab.txt"
    if not vocabulary.is_file():
        return None
    content = read_file(vocabulary, VOCABULARY * TOKEN)
    try:
        lines = unified_lines(content).removesuffix("\n").split("\n")
        return built_document(folder, {token: number for number, token in enumerate(lines)})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"{vocabulary} and the files next to it are damaged: {described(error)}"
        raise SourceError(message) from error


def without_special_tokens(tokenizer: TokenizerFile) -> TokenizerFile:
    """Return the tokenizer of a model that takes a text's own tokens, and none around them."""
    document = json.loads(tokenizer.data.decode("utf-8", "surrogatepass"))
    document["post_processor"] = _only_offsets(document.get("post_processor"))
    return replace(tokenizer, data=_canonical(document))


def _only_offsets(post: Any) -> dict[str, Any] | None:
    """Return a post-processor without its tokens, so with the trimming of offsets alone."""
    kind = post.get("type") if isinstance(post, dict) else None
    if kind == "Sequence":
        processors = [
            trimming
            for processor in post.get("processors") or ()
            if (trimming := _only_offsets(processor))
        ]
        return {**post, "processors": processors} if processors else None
    if kind == "RobertaProcessing":
        options = {key: post.get(key) for key in ("add_prefix_space", "trim_offsets")}
        return {"type": "ByteLevel", "use_regex": True, **options}
    return None if kind in {"TemplateProcessing", "BertProcessing"} else post


def _canonical(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _is_added_token(token: Any) -> bool:
    return (
        isinstance(token, dict)
        and type(token.get("id")) is int
        and token["id"] >= 0
        and isinstance(token.get("content"), str)
    )


def _is_token_and_score(entry: Any) -> bool:
    types = [type(item) for item in entry] if isinstance(entry, list) else []
    return types in ([str, int], [str, float])


def _check_step(path: Path, name: str, step: Any) -> None:
    """Check that a part is an object of a type, and so is each step of a sequence."""
    if step is None:
        return
    if not isinstance(step, dict) or not isinstance(step.get("type", ""), str):
        _refuse(path, name, "an object with a type, or null", step)
    for key in ("normalizers", "pretokenizers", "processors"):
        inner = step.get(key) or []
        if not isinstance(inner, list) or None in inner:
            _refuse(path, f"{name}.{key}", "a list of objects", inner)
        for number, substep in enumerate(inner):
            _check_step(path, f"{name}.{key}[{number}]", substep)


def _refuse(path: Path, part: str, rule: str, found: Any) -> NoReturn:
    raise SourceError(f"{path}: {part} must be {rule}; found {reprlib.repr(found)}.")


def _vocabulary_ids(path: Path, vocabulary: Any) -> set[int]:
    ids: Collection[Any]
    if isinstance(vocabulary, dict):  # WordPiece, BPE, WordLevel: token to id
        ids = vocabulary.values()
    elif isinstance(vocabulary, list):  # Unigram: token and score, in the order of their ids
        for number, entry in enumerate(vocabulary):
            if not _is_token_and_score(entry):
                _refuse(path, f"model.vocab[{number}]", "a token and its score", entry)
        ids = range(len(vocabulary))
    else:
        raise SourceError(f"{path}: model.vocab must be an object or a list.")
    if not ids or not all(type(number) is int and number >= 0 for number in ids):
        raise SourceError(f"{path}: model.vocab must map tokens to ids.")
    return set(ids)


def _check_size(path: Path, ids: set[int], rows: int) -> None:
    spare = max(UNUSED_ROWS, int(rows * UNUSED_SHARE))
    if max(ids) >= rows or max(ids) + 1 < rows - spare:
        raise SourceError(
            f"{path} does not belong to this model: its ids go up to {max(ids)}, the model has "
            f"rows for {rows} ids (0 to {rows - 1})."
        )


def _check_bounds(path: Path, document: dict[str, Any]) -> None:
    components = dict(document)
    model = dict(components.pop("model"))
    added = components.pop("added_tokens", None)
    _check_texts(path, "model.vocab", model.pop("vocab", None), VOCABULARY, TOKEN)
    _check_texts(path, "model.merges", model.pop("merges", None), MERGES, MERGE)
    _check_texts(path, "added_tokens", added, ADDED_TOKENS, TOKEN)
    _check_part(f"{path}", [*components])
    for name, component in {**components, "model": model}.items():
        _check_part(f"{path}: {name}", component)
    steps = values_of([components.get("normalizer"), components.get("pre_tokenizer")])
    if math.prod(_growth(step) for step in steps if isinstance(step, dict)) > GROWTH:
        raise SourceError(
            f"{path}: normalizer and pre_tokenizer can make a text more than {GROWTH} times "
            "longer; allowed are steps that together do not."
        )


def _check_texts(path: Path, name: str, entries: Any, most: int, characters: int) -> None:
    if not isinstance(entries, (list, dict)):
        return
    check_most(f"{path}: {name}", len(entries), most, "entries")
    for entry in entries:  # a token, a token and its score, a merge, an added token
        texts = [*entry.values()] if isinstance(entry, dict) else entry
        for text in texts if isinstance(texts, list) else [texts]:
            if isinstance(text, str):
                check_most(f"{path}: an entry of {name}", len(text), characters, "characters")


def _check_part(name: str, part: Any) -> None:
    # First, because the rest takes the square of the time.
    count = sum(len(item) for item in values_of(part) if not isinstance(item, str))
    check_most(name, count, PART_VALUES, "values")
    charsmaps: list[Any] = []
    for item in values_of(part):
        if isinstance(item, str):
            long = any(item is charsmap for charsmap in charsmaps)
            limit = CHARSMAP if long else PART_STRING
            check_most(f"{name}: a string", len(item), limit, "characters")
        elif isinstance(item, dict):
            charsmaps.append(item.get("precompiled_charsmap"))


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
    return 4 if kind == "ByteLevel" else 1  # a character has up to four bytes


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else 0


def _longest_replacement(charsmap: Any) -> int:
    """Return the characters of the longest replacement, which ends with a NUL; see `charsmap`."""
    try:
        data = base64.b64decode(charsmap, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return 1  # the library refuses it
    replacements = data[4 + int.from_bytes(data[:4], "little") :]
    return (
        max(len(replacement.decode(errors="replace")) for replacement in replacements.split(b"\0"))
        or 1
    )
