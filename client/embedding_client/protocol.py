"""The requests of the endpoint's native API: checks of the arguments, and the bodies."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedding_client.errors import ConfigurationError
from embedding_client.options import EmbedOptions, data_type

__all__ = ["Match", "checked", "embed_body", "similar_body"]


@dataclass(frozen=True, kw_only=True)
class Match:
    """A search result.

    Attributes:
        text: The indexed text, or None if the index does not have it.
        index: Its position in an index of the image, or None with an index of S3 Vectors.
        score: Its cosine similarity to the query.
        id: The key of its vector, or its position as a string in an index of the image.
        metadata: The other metadata of its vector; empty in an index of the image.
    """

    text: str | None
    index: int | None
    score: float
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, each checked when it is read. They may be a stream, so they are read once.

    Raises:
        ConfigurationError: If an item is not a string, is blank or is not valid Unicode.
    """
    if isinstance(texts, str):
        raise ConfigurationError(
            "texts must be a list of strings; found one string. Use embed_one."
        )
    for position, text in enumerate(texts):
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
        yield text


def embed_body(texts: Sequence[str], options: EmbedOptions) -> bytes:
    """Return the body of `POST /` for several texts."""
    dtype = data_type(options)
    fields = {
        "texts": list(texts),
        "size": options.get("dimensions"),
        "prompt_name": options.get("prompt"),
        "input_type": options.get("input_type"),
        "title": options.get("title"),
        "truncate": options.get("truncate"),
        "output_dtype": "float" if dtype == "float32" else dtype,
        "encoding_format": "base64",
    }
    return _encode({name: value for name, value in fields.items() if value is not None})


def similar_body(text: str, num_results: int, where: Mapping[str, Any] | None) -> bytes:
    """Return the body of `POST /similar`; `where` is its filter."""
    filters = {} if where is None else {"filter": where}
    return _encode({"text": text, "num_results": num_results, **filters})


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
