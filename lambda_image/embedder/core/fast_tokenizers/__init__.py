"""Texts to token ids: fast tokenizers over mapped tables, and the `tokenizers` library behind them.

`load` opens the tokenizer that the compiler chose for the model. A tokenizer returns the
text's own ids; the special tokens around them (`prefix`, `suffix`) and truncation belong to the
engine.
"""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from embedder.core.errors import ArtifactError

#: The module and the class of each kind. A cold start must not pay for those that do not serve.
_CLASSES = {
    "wordpiece": ("wordpiece", "WordPiece"),
    "bpe": ("bpe", "BytePairEncoding"),
    "byte_level_bpe": ("byte_level", "ByteLevel"),
    "unigram": ("unigram", "Unigram"),
    "tokenizers": ("fallback", "LibraryTokenizer"),
}
TOKENIZER_KINDS = tuple(_CLASSES)


class Tokenizer(Protocol):
    """The interface that the engine needs from a tokenizer; implementations are thread-safe."""

    #: The ids before and after the text's own, `[CLS]` and `[SEP]` for BERT.
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    #: One past the largest id that can come out.
    vocabulary_size: int
    #: The id of what the vocabulary lacks; None if every text has tokens, as one of bytes.
    unknown: int | None

    def encode(self, text: str) -> list[int]:
        """Return the text's own ids: no special tokens around them, no truncation."""

    def token(self, token_id: int) -> str:
        """Return the token's text as the vocabulary spells it; without one, a `ValueError`."""


def load(kind: str, path: str | os.PathLike[str]) -> Tokenizer:
    """Open a tokenizer's file, or raise an `ArtifactError`; `kind` is one of `TOKENIZER_KINDS`."""
    path = os.fspath(path)
    if kind not in _CLASSES:
        raise ArtifactError(
            f"The artifact's tokenizer is of kind {kind!r}; this embedder knows {TOKENIZER_KINDS}."
        )
    module, name = _CLASSES[kind]
    reader: Callable[[str], Tokenizer] = getattr(import_module(f"{__name__}.{module}"), name)
    try:
        return reader(path)
    except ArtifactError:
        raise
    # The bytes are not checked, so that anything may happen to a reader of altered ones.
    except Exception as error:
        raise ArtifactError(
            f"{path} was altered and cannot be read: {error!r}. Compile the model again."
        ) from error
