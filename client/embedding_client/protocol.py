"""The endpoint's native dialect as values: what is sent, and what came back."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from embedding_client.errors import (
    AnswerError,
    ConfigurationError,
    ForbiddenError,
    RequestError,
    ServiceError,
    ThrottledError,
)

__all__ = [
    "DataType",
    "EmbedOptions",
    "Match",
    "Reply",
    "answer_error",
    "check_texts",
    "check_url",
    "embed_body",
    "read_matches",
    "read_object",
    "read_vectors",
    "similar_body",
    "too_much",
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
# Refusals of a request that may pass in two halves.
_TOO_MUCH = frozenset({"batch_too_large", "body_too_large", "out_of_time"})


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


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An HTTP response, read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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


def check_texts(texts: Sequence[str]) -> None:
    """Refuses what is no text before anything is sent.

    Raises:
        ConfigurationError: an item is no string, or is blank.
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


def read_object(reply: Reply) -> dict[str, Any]:
    """Returns the JSON object of a success.

    Raises:
        AnswerError: it is no success, or no JSON object.
    """
    if reply.status != 200:
        raise answer_error(reply)
    value = _json(reply.body)
    if not isinstance(value, dict):
        raise _nonsense(reply, "the body is not a JSON object")
    return value


def read_vectors(reply: Reply, *, count: int, dtype: DataType) -> tuple[npt.NDArray[Any], str]:
    """Returns the vectors of an answer and their vector space.

    Returns:
        An array (count, dimension), or (count, ⌈dimension / 8⌉) for bits, and the space's name.

    Raises:
        AnswerError: it is no success, or not what was asked for.
    """
    value = read_object(reply)
    rows, space = value.get("embeddings"), value.get("vector_space")
    if not isinstance(rows, list) or len(rows) != count or not isinstance(space, str):
        raise _nonsense(reply, f"it does not hold {count} embeddings and their vector space")
    try:
        raw = b"".join(base64.b64decode(row, validate=True) for row in rows)
        numbers = np.frombuffer(raw, dtype=_NUMPY[dtype]).reshape(count, -1)
    except (TypeError, ValueError, binascii.Error) as error:
        raise _nonsense(reply, "the embeddings are not base64 of equal length") from error
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=True), space


def read_matches(reply: Reply) -> tuple[list[Match], str]:
    """Returns the matches of a search, best first, and their vector space."""
    value = read_object(reply)
    try:
        matches = [
            Match(text=str(one["text"]), index=int(one["index"]), score=float(one["score"]))
            for one in value["results"]
        ]
        return matches, str(value["vector_space"])
    except (KeyError, TypeError, ValueError) as error:
        raise _nonsense(reply, "it does not hold search results") from error


def too_much(reply: Reply) -> bool:
    """Tells whether the request was refused for its size, so that its halves may pass."""
    if reply.status < 400:
        return False
    value = _json(reply.body)
    if isinstance(value, dict) and "code" in value:
        return value["code"] in _TOO_MUCH
    return reply.status == 413  # Lambda itself, before the function saw it


def answer_error(reply: Reply) -> AnswerError:
    """Makes the error that an answer tells: the kit's own words, or AWS's."""
    value = _json(reply.body)
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    message = fields.get("error") or fields.get("message") or fields.get("Message")
    if not isinstance(message, str) or not message:
        message = reply.body[:200].decode(errors="replace") or "The endpoint gave no reason."
    kind: type[AnswerError] = ServiceError
    if 400 <= reply.status < 500:
        kind = {403: ForbiddenError, 429: ThrottledError}.get(reply.status, RequestError)
    return kind(
        message,
        status=reply.status,
        code=fields.get("code") or reply.headers.get("x-amzn-errortype"),
        field=fields.get("field"),
        request_id=reply.headers.get("x-request-id") or reply.headers.get("x-amzn-requestid"),
    )


def _nonsense(reply: Reply, what: str) -> ServiceError:
    return ServiceError(
        f"The answer makes no sense: {what}.",
        status=reply.status,
        request_id=reply.headers.get("x-request-id"),
    )


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
