"""Texts to token ids: fast tokenizers over mapped tables, and the `tokenizers` library behind them.

`load` opens the tokenizer that the compiler chose for the model. A tokenizer returns the
text's own ids; the special tokens around them (`prefix`, `suffix`) and truncation belong to the
engine.
"""

import os
from collections.abc import Callable
from typing import Protocol

from embedder.core.errors import ArtifactError

KINDS = ("wordpiece", "bpe", "byte_level_bpe", "unigram", "tokenizers")


class Tokenizer(Protocol):
    """The interface that the engine needs from a tokenizer; implementations are thread-safe."""

    #: The ids before and after the text's own, `[CLS]` and `[SEP]` for BERT.
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    #: One past the largest id that can come out.
    vocabulary_size: int

    def encode(self, text: str) -> list[int]:
        """Return the text's own ids: no special tokens around them, no truncation."""

    def token(self, token_id: int) -> str:
        """Return the token's text as the vocabulary spells it; without one, a `ValueError`."""


def load(kind: str, path: str | os.PathLike[str]) -> Tokenizer:
    """Open a tokenizer's file; `kind` is one of `KINDS`.

    Raises:
        ArtifactError: if the kind is unknown, or the file cannot be read or was changed.
    """
    path = os.fspath(path)
    reader = _reader(kind)
    try:
        return reader(path)
    except ArtifactError:
        raise
    # The bytes are not checked, so that anything may happen to a reader of altered ones.
    except Exception as error:
        raise ArtifactError(
            f"{path} was altered and cannot be read: {error!r}. Compile the model again."
        ) from error


def _reader(kind: str) -> Callable[[str], Tokenizer]:
    # Imported here: a cold start must not pay for the tokenizers that do not serve.
    if kind == "wordpiece":
        from embedder.core.fast_tokenizers.wordpiece import WordPiece  # noqa: PLC0415

        return WordPiece
    if kind == "bpe":
        from embedder.core.fast_tokenizers.bpe import BytePairEncoding  # noqa: PLC0415

        return BytePairEncoding
    if kind == "byte_level_bpe":
        from embedder.core.fast_tokenizers.byte_level import ByteLevel  # noqa: PLC0415

        return ByteLevel
    if kind == "unigram":
        from embedder.core.fast_tokenizers.unigram import Unigram  # noqa: PLC0415

        return Unigram
    if kind == "tokenizers":
        from embedder.core.fast_tokenizers.fallback import LibraryTokenizer  # noqa: PLC0415

        return LibraryTokenizer
    raise ArtifactError(
        f"The artifact's tokenizer is of kind {kind!r}; this embedder knows {KINDS}."
    )
