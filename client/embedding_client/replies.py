"""The endpoint's native dialect: what a response means."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from embedding_client.errors import (
    AnswerError,
    ForbiddenError,
    RequestError,
    ServiceError,
    ThrottledError,
)
from embedding_client.protocol import EmbedOptions, Match

__all__ = [
    "Part",
    "Reply",
    "answer_error",
    "read_matches",
    "read_object",
    "read_vectors",
    "splits",
    "too_much",
]

# Refusals of a request that may pass in two halves.
_TOO_MUCH = frozenset({"batch_too_large", "body_too_large", "out_of_time"})
# Refusals of one text. The message names it; where it does not, halves find it.
_ONE_TEXT = frozenset({"empty_input", "input_too_long"})
_PLACE = re.compile(r'"?texts\[(\d+)\]')


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An HTTP response with its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Part:
    """What the endpoint answered to some texts of a stream.

    Attributes:
        count: how many texts.
        vectors: of the texts that were embedded, in order: (count - len(refused), dimension).
        refused: the errors of the others, by their position among these texts.
    """

    count: int
    vectors: npt.NDArray[Any]
    refused: Mapping[int, RequestError]


def read_object(reply: Reply) -> dict[str, Any]:
    """Returns the JSON object of a success.

    Raises:
        AnswerError: the status is not 200, or the body is not a JSON object.
    """
    if reply.status != 200:
        raise answer_error(reply)
    value = _json(reply.body)
    if not isinstance(value, dict):
        raise _nonsense(reply, "the body is not a JSON object")
    return value


def read_vectors(
    reply: Reply, *, count: int, options: EmbedOptions
) -> tuple[npt.NDArray[Any], str]:
    """Returns the vectors of a response and their vector space.

    Returns:
        An array (count, dimension), or (count, ⌈dimension / 8⌉) for bits, and the space's name.

    Raises:
        AnswerError: the status is not 200, or the body is not what was asked for. If one text is
            at fault, `position` is its place in the request.
    """
    if reply.status != 200:
        raise answer_error(reply, count=count)
    value = read_object(reply)
    rows, space = value.get("embeddings"), value.get("vector_space")
    if not isinstance(rows, list) or len(rows) != count or not isinstance(space, str):
        raise _nonsense(reply, f"it does not hold {count} embeddings and their vector space")
    try:
        raw = b"".join(base64.b64decode(row, validate=True) for row in rows)
        numbers = np.frombuffer(raw, dtype=options.numpy).reshape(count, -1)
    except (TypeError, ValueError, binascii.Error) as error:
        raise _nonsense(reply, "the embeddings are not base64 of equal length") from error
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers).all(axis=1)))
        raise _nonsense(reply, f"embedding {row} holds NaN or infinity")
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=True), space


def read_matches(reply: Reply) -> tuple[list[Match], str]:
    """Returns the matches of a search, best first, and their vector space."""
    value = read_object(reply)
    try:
        matches = [
            Match(text=str(one["text"]), index=int(one["index"]), score=float(one["score"]))
            for one in value["results"]
        ]
        space = str(value["vector_space"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _nonsense(reply, "it does not hold search results") from error
    if not np.isfinite([match.score for match in matches]).all():
        raise _nonsense(reply, "a score is NaN or infinity")
    return matches, space


def too_much(reply: Reply) -> bool:
    """Returns whether the request was refused for its size."""
    if reply.status < 400:
        return False
    code = _fields(reply).get("code")
    # Without a code, a 413 is Lambda's own: the function did not see the request.
    return code in _TOO_MUCH if isinstance(code, str) else reply.status == 413


def splits(reply: Reply, *, count: int) -> bool:
    """Returns whether to send the texts of a refused request again in two halves.

    Args:
        reply: the refusal.
        count: how many texts the request held; one text has no halves.
    """
    if count < 2 or reply.status < 400:
        return False
    fields = _fields(reply)
    unplaced = fields.get("code") in _ONE_TEXT and _place(fields, count) is None
    return unplaced or too_much(reply)


def answer_error(reply: Reply, *, count: int = 0) -> AnswerError:
    """Returns the error for a response that is not a success.

    Args:
        reply: the response.
        count: how many texts the request held, to find the one at fault.
    """
    fields = _fields(reply)
    message = fields.get("error") or fields.get("message") or fields.get("Message")
    if 300 <= reply.status < 400:
        message = _redirect(reply)
    if not isinstance(message, str) or not message:
        message = reply.body[:200].decode(errors="replace") or "The endpoint gave no reason."
    code = fields.get("code")
    kind: type[AnswerError] = ServiceError
    position = None
    if 400 <= reply.status < 500:
        kind = {403: ForbiddenError, 429: ThrottledError}.get(reply.status, RequestError)
        position = _place(fields, count)
        if position is None and count == 1 and (code in _ONE_TEXT or too_much(reply)):
            position = 0
    return kind(
        message,
        status=reply.status,
        code=code or reply.headers.get("x-amzn-errortype"),
        field=fields.get("field"),
        request_id=reply.headers.get("x-request-id") or reply.headers.get("x-amzn-requestid"),
        position=position,
    )


def _place(fields: Mapping[str, Any], count: int) -> int | None:
    """Returns the position of the text that a refusal names, or None."""
    for said in (fields.get("field"), fields.get("error")):
        named = _PLACE.match(said) if isinstance(said, str) else None
        if named and int(named[1]) < count:
            return int(named[1])
    return None


def _redirect(reply: Reply) -> str:
    target = reply.headers.get("location")
    where = f"redirects to {target}" if target else "redirects without saying where"
    return (
        f"The URL {where}. The client does not follow redirects, because a signature is valid for "
        "one URL only. Use the endpoint's own URL"
        + (", or the one that it redirects to if you trust it." if target else ".")
    )


def _nonsense(reply: Reply, what: str) -> ServiceError:
    return ServiceError(
        f"The answer makes no sense: {what}.",
        status=reply.status,
        request_id=reply.headers.get("x-request-id"),
    )


def _fields(reply: Reply) -> Mapping[str, Any]:
    value = _json(reply.body)
    return value if isinstance(value, dict) else {}


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
