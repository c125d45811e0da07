"""Chat completions in OpenAI's form, with answers from the documents of an embedding endpoint.

The environment: SEARCH_URL, the endpoint; MODEL, what `make_generator` takes; THRESHOLD, the least
cosine of a source; ANSWER_SECONDS, the function's timeout less 40, for a search or a token.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from typing import Any, Literal

import httpx2
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from embedding_client import EmbeddingClient, EmbeddingClientError, RetryPolicy

from .generators import End, make_generator
from .prompt import NOTHING_FOUND, Source, conversation

#: OpenAI's `delta` and `finish_reason`, and a dictionary that may have `usage`.
Step = tuple[dict[str, str], str | None, dict[str, dict[str, int]]]
_SECONDS = float(os.environ.get("ANSWER_SECONDS", "80"))
_THRESHOLD = float(os.environ.get("THRESHOLD", "0.3"))
_model = os.environ.get("MODEL", "amazon.nova-micro-v1:0")
_generate = make_generator(_model)
_http, _retries = httpx2.Client(timeout=10), RetryPolicy(attempts=3, longest_wait=5)
_search = EmbeddingClient(os.environ["SEARCH_URL"], http_client=_http, retries=_retries)
_log = logging.getLogger("uvicorn.error")
app = FastAPI(openapi_url=None)


class Message(BaseModel, extra="forbid"):
    """What a user or the model said. The instructions are the app's own."""

    role: Literal["user", "assistant"]
    content: str = Field(max_length=10_000, pattern=r"\S")


class Question(BaseModel, extra="forbid"):
    """The fields of OpenAI's request that are obeyed, and `model`, which the deploy decides."""

    messages: list[Message] = Field(min_length=1, max_length=1000)
    model: str | None = None
    stream: bool | None = None
    stream_options: dict[Literal["include_usage"], bool] | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=2000)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=2000)
    temperature: float | None = Field(default=None, ge=0, le=0)


@app.get("/v1/models")
def models() -> dict[str, Any]:
    """List the one model: chat clients ask first, and Lambda Web Adapter until it is loaded."""
    model = {"id": _model, "object": "model", "created": 0, "owned_by": "ask"}
    return {"object": "list", "data": [model]}


@app.post("/v1/chat/completions")
def answer(question: Question) -> Response:
    """Search for the last message, and answer from the passages that are like it."""
    deadline = time.monotonic() + _SECONDS
    said = [(message.role, message.content) for message in question.messages]
    if [role for role, _ in said] != (["user", "assistant"] * len(said))[: len(said) | 1]:
        return _error("messages: user and assistant take turns, and the user is first and last")
    try:
        matches = _search.search(said[-1][1], top=5, candidates=20)
    except EmbeddingClientError as error:
        if getattr(error, "status", None) == 413:
            return _error("messages: the last has more tokens than the embedding model reads")
        _log.error("search failed: %s %s", type(error).__name__, getattr(error, "code", ""))
        return _error("The documents cannot be searched now.", status=502)
    matches = [match for match in matches if match.scores.get("dense", 0.0) >= _THRESHOLD]
    sources = [
        Source(number, match.text or "", str(match.metadata.get("document", match.id)))
        for number, match in enumerate(matches, start=1)
    ]
    nothing: list[str | End] = [NOTHING_FOUND, ("stop", 0, 0)]
    limit = question.max_completion_tokens or question.max_tokens or 500
    pieces = _generate(conversation(said, sources), limit) if sources else iter(nothing)
    head = {"id": f"chatcmpl-{os.urandom(16).hex()}", "created": int(time.time()), "model": _model}
    head["sources"] = [source._asdict() for source in sources]
    steps = _steps(pieces, deadline)
    if question.stream:
        return StreamingResponse(_events(question, head, steps), media_type="text/event-stream")
    try:
        *deltas, (_, finish, usage) = steps
    except RuntimeError:
        return _error("The answer cannot be generated now.", status=502)
    message = {"role": "assistant", "content": "".join(delta["content"] for delta, *_ in deltas)}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return JSONResponse(head | {"object": "chat.completion", "choices": [choice]} | usage)


def _steps(pieces: Iterator[str | End], deadline: float) -> Iterator[Step]:
    """Yield the step of the role, that of each piece until the deadline, and that of the end."""
    reason, read, written, count, started = "length", 0, 0, 0, time.monotonic()
    yield {"role": "assistant", "content": ""}, None, {}
    try:
        for piece in pieces:
            if isinstance(piece, tuple):
                reason, read, written = piece
            elif time.monotonic() > deadline:
                break
            else:
                count += 1
                yield {"content": piece}, None, {}
    except Exception as error:
        _log.error("generation failed: %s", type(error).__name__)
        raise RuntimeError("the model failed") from error
    _log.info("%d pieces in %.1f s, %s", count, time.monotonic() - started, reason)
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    yield {}, reason, {"usage": usage} if read else {}


def _events(question: Question, head: dict[str, Any], steps: Iterator[Step]) -> Iterator[str]:
    """Yield server-sent events; those of OpenAI's clients keep `sources`."""
    head = head | {"object": "chat.completion.chunk"}
    try:
        for delta, finish, usage in steps:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            yield f"data: {json.dumps(head | {'choices': [choice]})}\n\n"
            head.pop("sources", None)
            if usage and (question.stream_options or {}).get("include_usage"):
                yield f"data: {json.dumps(head | {'choices': []} | usage)}\n\n"
    except RuntimeError:
        yield f"data: {bytes(_error('The answer ends here: the model failed.').body).decode()}\n\n"
    yield "data: [DONE]\n\n"


@app.exception_handler(HTTPException)
@app.exception_handler(RequestValidationError)
def _refused(_request: Request, error: HTTPException | RequestValidationError) -> Response:
    if isinstance(error, HTTPException):
        return _error(f"{error.detail}: try POST /v1/chat/completions", status=error.status_code)
    reasons = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors()]
    return _error("; ".join(reasons))


def _error(message: str, *, status: int = 400) -> Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind}}, status_code=status)
