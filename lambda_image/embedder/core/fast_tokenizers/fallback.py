"""Adapter for the `tokenizers` library, for models that the fast tokenizers do not cover."""

from collections.abc import Callable
from typing import Any, TypeVar

import tokenizers

from embedder.core.errors import ArtifactError, InferenceError

Value = TypeVar("Value")


class LibraryTokenizer:
    """A `tokenizer.json`, run by the library that defines it."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                library = tokenizers.Tokenizer.from_buffer(file.read())
            # Length is the engine's business; the file's own settings are those of its training.
            library.no_truncation()
            library.no_padding()
            self.prefix, self.suffix = _special_tokens(library)
        except BaseException as error:
            if is_tokenizer_error(error):
                raise ArtifactError(f"{path} cannot be read as a tokenizer: {error}.") from error
            raise
        self._library = library
        # The library's Unigram does not name its own, which is this in every known file.
        self.unknown = library.token_to_id(getattr(library.model, "unk_token", "<unk>") or "")
        self.vocabulary_size = 1 + max(library.get_vocab(with_added_tokens=True).values())

    def encode(self, text: str) -> list[int]:
        """Return the text's own ids."""
        return _served(self._library.encode, text, add_special_tokens=False).ids

    def token(self, token_id: int) -> str:
        """Return the token's text as the vocabulary spells it."""
        text = self._library.id_to_token(token_id)
        if text is None:
            raise ValueError(f"No token has the id {token_id}.")
        return text

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the text of ids, as the tokenizer's own decoder writes it."""
        return _served(self._library.decode, ids, skip_special_tokens=skip_special_tokens)


def _served(call: Callable[..., Value], *arguments: Any, **options: Any) -> Value:
    try:
        return call(*arguments, **options)
    except BaseException as error:
        if is_tokenizer_error(error):
            raise InferenceError from error
        raise


def is_tokenizer_error(error: BaseException) -> bool:
    """Say whether an exception is an error of the library.

    A Rust panic, which a regular expression over its retry limit causes, reaches Python as a
    `PanicException`. That is a BaseException, and pyo3 exports no name to catch it by
    (https://docs.rs/pyo3/latest/pyo3/panic/struct.PanicException.html).
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _special_tokens(library: tokenizers.Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    encoding = library.encode("a", add_special_tokens=True)
    own = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
    if not own:
        # The text has no own tokens: all special tokens are the prefix.
        return tuple(encoding.ids), ()
    return tuple(encoding.ids[: own[0]]), tuple(encoding.ids[own[-1] + 1 :])
