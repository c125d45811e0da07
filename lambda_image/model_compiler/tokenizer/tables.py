"""From `tokenizer.json` to the tokenizer that serves: fast tables where they are exact.

`build` reads the JSON strictly. Where it knows every part, it writes tables, loads them with the
embedder and compares ids with `tokenizers` on a sample; where a part is not covered or a single id
differs, the library itself serves, and the artifact says why.
"""

import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import tokenizers

from embedder.core.artifact import ScoringEntry
from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.fast_tokenizers.fallback import is_tokenizer_error
from model_compiler.errors import SourceError
from model_compiler.supervision import budget
from model_compiler.tokenizer.byte_pair import (
    byte_level_sections,
    byte_pair_sections,
    check_byte_level,
    check_byte_pair_encoding,
    is_byte_level,
)
from model_compiler.tokenizer.coverage import Json, NotCoveredError, check_parts, not_covered
from model_compiler.tokenizer.sample import sample_texts
from model_compiler.tokenizer.table_file import added_token_sections, table_file, text_sections
from model_compiler.tokenizer.unigram import check_unigram, unigram_sections
from model_compiler.tokenizer.wordpiece import check_wordpiece, wordpiece_sections

TokenizerKind = Literal["wordpiece", "bpe", "byte_level_bpe", "unigram", "tokenizers"]

#: The kind of a library's model by its class; a BPE may also be a byte-level one.
_MODELS: Mapping[str, TokenizerKind] = {
    "WordPiece": "wordpiece",
    "BPE": "bpe",
    "Unigram": "unigram",
}
#: What checks that a file of each kind is covered, and what gives its own sections.
_CHECKS_AND_SECTIONS: Mapping[
    TokenizerKind, tuple[Callable[[Json], object], Callable[[Json, Any], dict[str, bytes]]]
] = {
    "wordpiece": (check_wordpiece, wordpiece_sections),
    "bpe": (check_byte_pair_encoding, byte_pair_sections),
    "byte_level_bpe": (check_byte_level, byte_level_sections),
    "unigram": (check_unigram, unigram_sections),
}

#: How many texts are compared before tables are trusted; about half a second.
_SAMPLE = 2500
#: Seconds of CPU in which the library must encode them, and for each other step.
_SAMPLE_SECONDS = 60
_SECONDS = 300


@dataclass(frozen=True, slots=True)
class TokenizerTables:
    """The tokenizer's part of an artifact; `kind`, `file` and `reason` go into the manifest."""

    kind: TokenizerKind
    #: The file's name in the artifact.
    file: str
    #: The file's bytes.
    data: bytes
    #: Why `tokenizers` serves and not the fast tokenizer; null where it does not.
    reason: str | None


def build(tokenizer_json: bytes, *, embedding_rows: int | None = None) -> TokenizerTables:
    """Turn the bytes of a `tokenizer.json` into the tokenizer's part of an artifact.

    The same bytes give the same bytes. The model has `embedding_rows`, if that is known.
    """
    library = _library(tokenizer_json)
    _check_ids(library, embedding_rows)
    sample = _encoded_sample(library)
    try:
        kind, data = _tables(orjson.loads(tokenizer_json), library, sample)
    except NotCoveredError as reason:
        return TokenizerTables("tokenizers", "tokenizer.json", tokenizer_json, str(reason))
    return TokenizerTables(kind, "tokenizer.bin", data, None)


def check_room(
    tables: TokenizerTables,
    limit: int,
    prompts: Mapping[str, str],
    scoring: ScoringEntry | None = None,
) -> None:
    """Check that the limit leaves room for a text between the special tokens, after any prompt."""
    with _loaded(tables.kind, tables.data) as tokenizer:
        specials = len(tokenizer.prefix) + len(tokenizer.suffix)
        if scoring:
            texts = (scoring.query_prefix, scoring.query_suffix, scoring.passage_prefix)
            specials = len(scoring.before) + len(scoring.between) + len(scoring.after)
            # A token for the other text.
            specials += 1 + sum(len(tokenizer.encode(text)) for text in texts)
        lengths = {name: len(tokenizer.encode(prompt)) for name, prompt in prompts.items()}
    if limit <= specials:
        raise SourceError(
            f"The model's limit of {limit} tokens leaves no room for a text: tokenizer.json adds "
            f"{specials} special tokens to each."
        )
    for name, length in lengths.items():
        if length + specials >= limit:
            raise SourceError(
                f"The prompt {name!r} must leave room for a text within the model's limit of "
                f"{limit} tokens; found {length + specials} tokens, special tokens included."
            )


@contextmanager
def _loaded(kind: TokenizerKind, data: bytes) -> Iterator[Tokenizer]:
    """Yield the embedder's tokenizer over these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer"
        path.write_bytes(data)
        yield load(kind, path)


@contextmanager
def _errors_of_the_library(message: str) -> Iterator[None]:
    """Turn its errors, also a panic, into a SourceError."""
    try:
        yield
    except BaseException as error:
        if is_tokenizer_error(error):
            raise SourceError(f"{message}: {error}") from error
        raise


@budget("reading tokenizer.json", seconds=_SECONDS)
def _library(tokenizer_json: bytes) -> tokenizers.Tokenizer:
    with _errors_of_the_library("tokenizer.json cannot be read as a tokenizer"):
        library = tokenizers.Tokenizer.from_buffer(tokenizer_json)
        library.no_truncation()
        library.no_padding()
    return library


def _check_ids(library: tokenizers.Tokenizer, rows: int | None) -> None:
    ids = library.get_vocab(with_added_tokens=True)
    with _errors_of_the_library("tokenizer.json fails on an empty text"):
        around = library.encode("").ids
    # Besides those of the vocabulary, the ids that the post-processor puts around a text.
    ids |= {f"post_processor {number}": number for number in around}
    highest = max(ids, key=ids.__getitem__)
    if rows is not None and ids[highest] >= rows:
        raise SourceError(
            f"tokenizer.json does not belong to the model: the model has embeddings for {rows} "
            f"tokens, and {highest!r} has the id {ids[highest]}."
        )


@budget("making tables of tokenizer.json", seconds=_SECONDS)
def _tables(
    document: Json, library: tokenizers.Tokenizer, sample: Sequence[tuple[str, list[int]]]
) -> tuple[TokenizerKind, bytes]:
    check_parts(document)
    model = type(library.model).__name__
    kind = _MODELS.get(model)
    if kind is None:
        not_covered("models of type", model)
    if kind == "bpe" and is_byte_level(document):
        kind = "byte_level_bpe"
    check, own_sections = _CHECKS_AND_SECTIONS[kind]
    check(document)
    _check_spelling(library, document)
    data = table_file({**_shared_sections(library), **own_sections(document, library.model)})
    with _loaded(kind, data) as fast:
        different = sum(fast.encode(text) != ids for text, ids in sample)
    if different:
        raise NotCoveredError(
            f"the fast tokenizer differs from `tokenizers` on {different} of {len(sample)} texts"
        )
    return kind, data


def _shared_sections(library: tokenizers.Tokenizer) -> dict[str, bytes]:
    before, after = _special_tokens(library)
    size = 1 + max(library.get_vocab(with_added_tokens=True).values())
    added = library.get_added_tokens_decoder()
    return {
        "parameters": array("I", [len(before), len(after), *before, *after, size]).tobytes(),
        **text_sections([library.id_to_token(token_id) or "" for token_id in range(size)]),
        **added_token_sections("added", {i: t for i, t in added.items() if not t.normalized}),
        **added_token_sections(
            "normal",
            {i: t for i, t in added.items() if t.normalized},
            normalizer=library.normalizer,
        ),
    }


def _check_spelling(library: tokenizers.Tokenizer, document: Json) -> None:
    """Check that the library assigns each token of a text the id in the file, and no id twice."""
    added = {token["content"]: token["id"] for token in document.get("added_tokens") or []}
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, list):  # of Unigram: texts and scores in the order of their ids
        if len({text for text, _ in vocabulary}) < len(vocabulary):
            not_covered("two ids of one token")
        vocabulary = {text: token_id for token_id, (text, _) in enumerate(vocabulary)}
    if "" in vocabulary:
        not_covered("a vocabulary with an empty token")
    expected = {**vocabulary, **added}
    if library.get_vocab(with_added_tokens=True) != expected:
        not_covered("ids that are not the file's own")
    if len(set(expected.values())) != len(expected):
        not_covered("two tokens of one id")


def _special_tokens(library: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tokens that the post-processor adds around a text; they must be constant."""
    with _errors_of_the_library("tokenizer.json fails on ordinary texts"):
        empty, *examples = (
            (
                library.encode(text, add_special_tokens=True).ids,
                library.encode(text, add_special_tokens=False).ids,
            )
            for text in ("", "a", "Two words.", "東京 naïve 😀")
        )
    for at in range(len(empty[0]) + 1):
        before, after = empty[0][:at], empty[0][at:]
        if all(encoded == before + own + after for encoded, own in examples):
            return tuple(before), tuple(after)
    return not_covered("the post_processor")


@budget("encoding a sample of texts with tokenizer.json", seconds=_SAMPLE_SECONDS)
def _encoded_sample(library: tokenizers.Tokenizer) -> list[tuple[str, list[int]]]:
    """Return a sample of texts, each with the ids that `tokenizers` gives for it."""
    with _errors_of_the_library("tokenizer.json fails on ordinary texts"):
        # One by one: all encodings at once could fill the memory.
        return [
            (text, library.encode(text, add_special_tokens=False).ids)
            for text in sample_texts(library, count=_SAMPLE, seed=0)
        ]
