"""The responses of the endpoint's native API: vectors, matches, errors."""

import base64
import json
import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import numpy as np
import numpy.typing as npt

from embedding_client._protocol import Classified, EmbedOptions, Match, SparseVector, numpy_type
from embedding_client.errors import (
    ForbiddenError,
    RequestError,
    ResponseError,
    ServiceError,
    ThrottledError,
    VectorSpaceError,
)


class VectorSpaceGuard:
    """Holds the vector space of the responses and refuses responses from another one.

    The name of a vector space is `model@revision/precision/fingerprint/dimensions`. Calls may use
    different dimensions of one space. The rest of the name must be the same.
    """

    def __init__(self, expected: str | None = None) -> None:
        self._lock = threading.Lock()
        self._expected = expected
        self._family = None if expected is None else _family(expected)
        self.current = expected

    def check(self, space: str) -> None:
        """Check the vector space of a response."""
        with self._lock:
            if self._family is None:
                self._family = _family(space)
            if _family(space) != self._family or (
                _has_dimensions(self._expected) and space != self._expected
            ):
                raise VectorSpaceError(
                    f"The endpoint uses the vector space {space!r}; expected "
                    f"{self._expected or self.current!r}. Vectors of two spaces cannot be "
                    "compared. Embed all texts again, or use the endpoint of the stored vectors."
                )
            self.current = space

    def check_search(self, space: str) -> None:
        """Check the vector space of a search's answer, if the caller has named one.

        An answer has no vectors that could meet those of another one. So a client searches on
        while an endpoint moves to another model with its index.
        """
        if self._expected is not None:
            self.check(space)


def _family(space: str) -> str:
    return space.rpartition("/")[0] if _has_dimensions(space) else space


def _has_dimensions(space: str | None) -> bool:
    return space is not None and space.rpartition("/")[2].isdigit() and "/" in space


# The codes of a request that is too large and may succeed in two halves.
_TOO_LARGE = frozenset({"batch_too_large", "body_too_large", "out_of_time"})
# The codes of errors about one text. If the message does not name the text, splitting finds it.
_ONE_TEXT = frozenset({"empty_input", "input_too_long"})
_POSITION = re.compile(r'"?texts\[(\d+)\]')


@dataclass(frozen=True, kw_only=True)
class EmbeddedTexts:
    """The result for some consecutive texts of a stream.

    Attributes:
        count: The number of texts.
        vectors: The vectors of the texts that were embedded, in order: an array of shape
            (count - len(refused), dimensions).
        refused: The errors of the other texts, by their position among these.
    """

    count: int
    vectors: npt.NDArray[Any]
    refused: Mapping[int, RequestError]


def read_object(response: httpx2.Response, *, count: int = 0) -> dict[str, Any]:
    """Return the JSON object of a successful response to `count` texts, or raise its error."""
    if response.status_code != 200:
        raise response_error(response, count=count)
    value = read_json(response.content)
    if not isinstance(value, dict):
        raise _invalid(response, "the body is not a JSON object")
    notes = value.get("warnings")
    for note in notes if isinstance(notes, list) else ():
        # Python shows equal ones of one place once.
        warnings.warn(str(note.get("message") if isinstance(note, dict) else note), stacklevel=1)
    return value


def read_vectors(
    response: httpx2.Response, *, count: int, options: EmbedOptions
) -> tuple[npt.NDArray[Any], str]:
    """Return the vectors, (count, dimensions or ⌈dimensions / 8⌉), and their space."""
    value = read_object(response, count=count)
    rows, space = value.get("embeddings"), value.get("vector_space")
    if not isinstance(rows, list) or len(rows) != count or not isinstance(space, str):
        raise _invalid(response, f"it does not hold {count} embeddings and their vector space")
    try:
        raw = b"".join(base64.b64decode(row, validate=True) for row in rows)
        numbers = np.frombuffer(raw, dtype=numpy_type(options)).reshape(count, -1)
    except (TypeError, ValueError) as error:
        raise _invalid(response, "the embeddings are not base64 of equal length") from error
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers).all(axis=1)))
        raise _invalid(response, f"embedding {row} holds NaN or infinity")
    return numbers.astype(numbers.dtype.newbyteorder("="), copy=True), space


def read_scores(response: httpx2.Response, *, count: int) -> tuple[npt.NDArray[np.float64], str]:
    """Return the scores of a response and their space.

    They are float64 (count, 2) in the passages' order: the score, and what ranks equal scores. That
    is the logit, as float32 rounds the sigmoid of different logits to one score; 0 without one.
    """
    value = read_object(response, count=count)
    scores = np.full((count, 2), np.nan)
    try:
        for result in value["results"]:
            scores[result["index"]] = result["relevance_score"], result.get("logit", 0.0)
        space = str(value["score_space"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _invalid(response, "it does not hold scores") from error
    if not np.isfinite(scores).all():
        raise _invalid(response, f"it does not hold {count} scores")
    return scores, space


def read_sparse(response: httpx2.Response, *, count: int) -> tuple[list[SparseVector], str]:
    """Return the sparse vectors of a response and the name of their vector space."""
    value = read_object(response, count=count)
    try:
        vectors = [
            SparseVector(np.array(row["indices"], np.uint32), np.array(row["values"], np.float32))
            for row in value["embeddings"]
        ]
        space = str(value["vector_space"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _invalid(response, "it does not hold sparse vectors") from error
    if len(vectors) != count or any(len(indices) != len(values) for indices, values in vectors):
        raise _invalid(response, f"it does not hold {count} sparse vectors")
    return vectors, space


def read_labels(response: httpx2.Response, *, count: int) -> tuple[list[Classified], str]:
    """Return the labels of each text of a response and the name of their label space."""
    value = read_object(response, count=count)
    try:
        classified = [
            Classified(
                label=str(entries[0]["label"]),
                score=float(entries[0]["score"]),
                scores={str(entry["label"]): float(entry["score"]) for entry in entries},
            )
            for entries in value["classifications"]
        ]
        space = str(value["label_space"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _invalid(response, "it does not hold labels") from error
    if len(classified) != count:
        raise _invalid(response, f"it does not hold the labels of {count} texts")
    return classified, space


def read_matches(response: httpx2.Response) -> tuple[list[Match], str]:
    """Return the matches of a search, best first, and the name of their vector space."""
    value = read_object(response)
    try:
        matches = [_match(match) for match in value["results"]]
        space = str(value["vector_space"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise _invalid(response, "it does not hold search results") from error
    if not np.isfinite([match.score for match in matches]).all():
        raise _invalid(response, "a score is NaN or infinity")
    return matches, space


def _match(value: Mapping[str, Any]) -> Match:
    text, index = value["text"], value["index"]
    return Match(
        text=None if text is None else str(text),
        index=None if index is None else int(index),
        score=float(value["score"]),
        # An endpoint of an earlier release has no ids and no metadata.
        id=str(value.get("id", index)),
        metadata=dict(value.get("metadata", {})),
        scores={name: float(score) for name, score in value.get("scores", {}).items()},
    )


def should_split(response: httpx2.Response, *, count: int) -> bool:
    """Return whether to send the texts of a failed request again in two halves."""
    if count < 2 or response.status_code < 400:
        return False
    fields = _fields(response)
    text_unknown = fields.get("code") in _ONE_TEXT and _position(fields, count) is None
    return text_unknown or _is_too_large(response)


def response_error(response: httpx2.Response, *, count: int) -> ResponseError:
    """Return the exception for an answer that is no success, to a request of `count` texts."""
    status, headers, fields = response.status_code, response.headers, _fields(response)
    message = fields.get("error") or fields.get("message") or fields.get("Message")
    if 300 <= status < 400:
        message = _redirect(response)
    if not isinstance(message, str) or not message:
        message = response.content[:200].decode(errors="replace") or "The endpoint gave no reason."
    code = fields.get("code")
    error_class: type[ResponseError] = ServiceError
    position = None
    if 400 <= status < 500:
        error_class = {401: ForbiddenError, 403: ForbiddenError, 429: ThrottledError}.get(
            status, RequestError
        )
        position = _position(fields, count)
        if position is None and count == 1 and (code in _ONE_TEXT or _is_too_large(response)):
            position = 0
        if status == 413 and code is None:
            message = f"It is too large for one request to Lambda: {message}"
    return error_class(
        message,
        status=status,
        code=code or headers.get("x-amzn-errortype"),
        field=fields.get("field"),
        request_id=headers.get("x-request-id") or headers.get("x-amzn-requestid"),
        position=position,
    )


def _is_too_large(response: httpx2.Response) -> bool:
    code = _fields(response).get("code")
    # A 413 without a code is Lambda's own: the request did not reach the function.
    return code in _TOO_LARGE if isinstance(code, str) else response.status_code == 413


def _position(fields: Mapping[str, Any], count: int) -> int | None:
    """Return the position of the text that an error names, or None."""
    for value in (fields.get("field"), fields.get("error"), fields.get("message")):
        match = _POSITION.match(value) if isinstance(value, str) else None
        if match and int(match[1]) < count:
            return int(match[1])
    return None


def _redirect(response: httpx2.Response) -> str:
    target = response.headers.get("location")
    where = f"redirects to {target}" if target else "redirects without a Location header"
    return (
        f"The URL {where}. The client does not follow redirects, because a signature is valid for "
        "one URL only. Use the endpoint's own URL"
        + (", or the redirect's target if you trust it." if target else ".")
    )


def _invalid(response: httpx2.Response, problem: str) -> ServiceError:
    return ServiceError(
        f"The response is invalid: {problem}.",
        status=response.status_code,
        request_id=response.headers.get("x-request-id"),
    )


def _fields(response: httpx2.Response) -> Mapping[str, Any]:
    value = read_json(response.content)
    fields = value if isinstance(value, dict) else {}
    error = fields.get("error")
    # API Gateway's own errors have OpenAI's form on every path.
    return {**error, "error": error.get("message")} if isinstance(error, dict) else fields


def read_json(body: bytes) -> object:
    """Return the value, or None if the body is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
