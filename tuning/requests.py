"""Requests of a given number of tokens."""

import base64
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuning.errors import TuneError
from tuning.workload import Workload

__all__ = ["PATH", "EmbeddingRequest", "make_requests", "vectors_of"]

PATH = "/v1/embeddings"
#: Real English text.
_SOURCE = Path(__file__).parents[1] / "LICENSE"
#: Each text starts at another word, for equal texts of a request are embedded once.
_STEP = 97
_TRIES = 8

Call = Callable[[str, str, object], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """A request for embeddings."""

    #: Its tokens as the endpoint counts them, near the wanted number.
    tokens: int
    texts: int
    body: Mapping[str, Any]


def make_requests(workload: Workload, call: Call) -> tuple[EmbeddingRequest, ...]:
    """Make a request of each length, by asking the endpoint how many tokens texts have.

    Args:
        workload: The lengths.
        call: Sends a method, a path and a body, and returns the body of the answer.

    Raises:
        TuneError: The endpoint does not take a request so long.
    """
    limit = int(call("GET", "/info", None)["max_input_length"])
    # Plain words have a token or two each, so that their number finds nearly each number of tokens.
    words = [word for word in _SOURCE.read_text(encoding="utf-8").split() if word.isalpha()]
    return tuple(
        _request(length.tokens, workload.texts, limit, words, call) for length in workload.lengths
    )


def vectors_of(answer: Mapping[str, Any]) -> np.ndarray:
    """Return the vectors of an answer: float32 [texts, dimensions]."""
    rows = [base64.b64decode(row["embedding"]) for row in answer["data"]]
    return np.stack([np.frombuffer(row, dtype="<f4") for row in rows])


def _request(tokens: int, texts: int, limit: int, words: list[str], call: Call) -> EmbeddingRequest:
    """Change the number of words until the tokens are right, or as near as words allow."""
    if texts == 1 and tokens > limit:
        raise TuneError(f"found: a text of {tokens} tokens; allowed: up to {limit}, by the model")
    texts = max(texts, math.ceil(tokens / limit))
    tried: dict[int, EmbeddingRequest] = {}
    # An English word has one token or more, so this begins below the wanted number.
    count = max(texts, round(0.6 * tokens))
    while count not in tried and len(tried) < _TRIES:
        body = _body(list(_texts(words, count, texts)))
        found = int(call("POST", PATH, body)["usage"]["prompt_tokens"])
        tried[count] = EmbeddingRequest(found, texts, body)
        if found == tokens:
            break
        step = round((tokens - found) * count / found)
        count = max(texts, count + (step or (1 if found < tokens else -1)))
    return min(tried.values(), key=lambda request: abs(request.tokens - tokens))


def _body(texts: list[str]) -> dict[str, object]:
    # Cut to the limit: while the number of words is searched, a text may be over it.
    return {"input": texts, "encoding_format": "base64", "truncate": "right"}


def _texts(words: list[str], count: int, texts: int) -> Iterator[str]:
    """Yield texts with this number of words in total."""
    for number in range(texts):
        begin = number * _STEP
        size = count * (number + 1) // texts - count * number // texts
        yield " ".join(words[(begin + place) % len(words)] for place in range(size))
