"""The endpoint's native dialect: the options and the bodies of requests."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from embedding_client.errors import ConfigurationError

__all__ = [
    "DataType",
    "EmbedOptions",
    "Match",
    "check_texts",
    "check_url",
    "embed_body",
    "similar_body",
]

DataType = Literal["float32", "int8", "uint8", "binary", "ubinary"]
_WIRE = {
    "float32": "float",
    "int8": "int8",
    "uint8": "uint8",
    "binary": "binary",
    "ubinary": "ubinary",
}
_NUMPY: dict[str, npt.DTypeLike] = {
    "float32": "<f4",
    "int8": np.int8,
    "uint8": np.uint8,
    "binary": np.int8,
    "ubinary": np.uint8,
}


@dataclass(frozen=True, kw_only=True)
class EmbedOptions:
    """How texts are to be embedded.

    Attributes:
        prompt: the name of one of the model's prompts, or None for its default.
        input_type: what the texts are (`query`, `document` …), which chooses the prompt where the
            model has one for it; not together with `prompt`.
        title: of the document, for a prompt that has a place for it.
        dimension: one of the model's sizes, or None for the full one.
        dtype: `float32`; `int8` or `uint8`; `binary` or `ubinary` for bits packed eight to a byte.
        truncate: what to do with a text over the model's limit: `refuse`, `right` (its end is cut
            off), `left` (its start is), or None for what the endpoint does.
    """

    prompt: str | None = None
    input_type: str | None = None
    title: str | None = None
    dimension: int | None = None
    dtype: DataType = "float32"
    truncate: Literal["refuse", "right", "left"] | None = None

    @property
    def numpy(self) -> npt.DTypeLike:
        """The type of the vectors' numbers, little-endian as they travel."""
        return _NUMPY[self.dtype]

    def __post_init__(self) -> None:
        if self.dtype not in _WIRE:
            raise ConfigurationError(
                f"dtype must be one of {', '.join(_WIRE)}; found {self.dtype!r}."
            )
        if self.prompt is not None and self.input_type is not None:
            raise ConfigurationError("Give prompt or input_type, not both.")


@dataclass(frozen=True, kw_only=True)
class Match:
    """An entry of the endpoint's index.

    Attributes:
        text: the entry.
        index: its position in the index.
        score: the cosine similarity to the query.
    """

    text: str
    index: int
    score: float


def check_url(url: str) -> str:
    """Returns the endpoint's URL without a slash at its end.

    Raises:
        ConfigurationError: it is no HTTP URL, or has a query.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(
            "The URL must look like https://<id>.lambda-url.<region>.on.aws/ or "
            f"http://127.0.0.1:9000; found {url!r}."
        )
    return url.rstrip("/")


def check_texts(texts: Sequence[str], *, start: int = 0) -> None:
    """Refuses what is not a text before anything is sent.

    Args:
        texts: the texts.
        start: the position of the first one, for the message.

    Raises:
        ConfigurationError: an item is no string, or is blank.
    """
    if isinstance(texts, str):
        raise ConfigurationError(
            "texts must be a list of strings; found one string. Use embed_one."
        )
    for position, text in enumerate(texts, start):
        if not isinstance(text, str):
            raise ConfigurationError(
                f"texts must be strings; found {type(text).__name__} at position {position}."
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(
                f"texts must be valid Unicode; found a lone surrogate at position {position}."
            ) from None
        if not text or text.isspace():
            raise ConfigurationError(
                f"texts must not be blank; found {text!r} at position {position}."
            )


def embed_body(texts: Sequence[str], options: EmbedOptions) -> bytes:
    """Returns the body of `POST /` for several texts."""
    wanted = {
        "texts": list(texts),
        "size": options.dimension,
        "prompt_name": options.prompt,
        "input_type": options.input_type,
        "title": options.title,
        "truncate": options.truncate,
        "output_dtype": _WIRE[options.dtype],
        "encoding_format": "base64",
    }
    return _encode({name: value for name, value in wanted.items() if value is not None})


def similar_body(text: str, num_results: int) -> bytes:
    """Returns the body of `POST /similar`."""
    return _encode({"text": text, "num_results": num_results})


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
