"""What every operation of every dialect is: a type for its body, and an answer."""

from typing import Any, ClassVar, NamedTuple

import orjson

from embedder.engine import Engine
from embedder.errors import AnswerableError, BatchTooLargeError
from embedder.http import ENVELOPE_BYTES, MAX_RESPONSE_BYTES, Request, Response
from embedder.json_body import parse_object
from embedder.json_types import Object
from embedder.requests import Embeddings, EmbedRequest
from embedder.search import SearchIndex
from embedder.telemetry import RequestRecord

__all__ = ["JSON", "Call", "Dialect", "Model", "Operation", "bounded", "json_response"]

JSON = {"content-type": "application/json"}


class Model(NamedTuple):
    """What the operations serve."""

    engine: Engine
    search_index: SearchIndex | None = None


class Dialect:
    """How an API tells errors."""

    name: str

    @staticmethod
    def error(error: AnswerableError, request_id: str) -> Response:
        """Render an error."""
        raise NotImplementedError

    #: The JSON Schema of the body that `error` gives.
    error_schema: ClassVar[dict[str, Any]]
    #: The statuses that errors of a well-formed request may have.
    error_statuses: ClassVar[tuple[int, ...]]


class Call(NamedTuple):
    """A request whose body holds these values, all of them valid by their types."""

    values: dict[str, Any]
    request: Request
    record: RequestRecord


class Operation:
    """One method on one path.

    Args:
        model: what is served.
    """

    dialect: type[Dialect]
    #: A short, stable name, for the log and as the document's operationId.
    name: str
    summary: str
    #: What the request's body must be; None: there is none.
    body: Object | None = None

    def __init__(self, model: Model) -> None:
        self.model = model

    def handle(self, request: Request, record: RequestRecord) -> Response:
        """Answer a request.

        Raises:
            AnswerableError: for `dialect.error` to render.
        """
        values = {} if self.body is None else self.body.check(parse_object(request.body))
        return self.answer(Call(values, request, record))

    def answer(self, call: Call, /) -> Response:
        """Answer a call."""
        raise NotImplementedError

    @property
    def result(self) -> dict[str, Any]:
        """The JSON Schema of the answer's body."""
        raise NotImplementedError

    def embed(self, request: EmbedRequest, call: Call) -> Embeddings:
        """Embed, and note it in the record."""
        call.record.embeddings = embeddings = self.model.engine.answer(request)
        return embeddings


def json_response(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Render a value, which may hold numpy arrays, as JSON."""
    return Response(
        status=status,
        body=orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY),
        headers={**JSON, **headers} if headers else JSON,
    )


def bounded(response: Response) -> Response:
    """Refuse an answer that Lambda would refuse, which the caller would see as a bare 502.

    Batches of vectors are refused before they are computed; this is for answers whose size is known
    only when they are there.

    Raises:
        BatchTooLargeError: telling the size found and the size allowed.
    """
    body = response.body
    # The body travels as a JSON string: a quote or a backslash takes another byte.
    if len(body) > MAX_RESPONSE_BYTES // 2:
        size = len(body) + body.count(b'"') + body.count(b"\\") + ENVELOPE_BYTES
        if size > MAX_RESPONSE_BYTES:
            raise BatchTooLargeError(
                f"The answer would take {size} bytes; at most {MAX_RESPONSE_BYTES} are allowed. "
                "Ask for less in one request."
            )
    return response
