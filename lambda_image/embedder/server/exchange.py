"""One request and its answer: the facts for the access log, the metrics and the traces."""

import time
from typing import NamedTuple

from embedder.http.telemetry import RequestRecord
from embedder.server.queue import Ticket

__all__ = ["Caller", "Exchange"]


class Caller(NamedTuple):
    """Who sent a request."""

    #: The name of the key, never the key; empty without keys.
    name: str = ""
    #: The key's own limits; None: none.
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Exchange:
    """A request on its way through the server.

    Args:
        request_id: the client's, or a new one.
        method: in capitals.
        path: as it was sent.
    """

    __slots__ = (
        "admitted",
        "api",
        "body_bytes",
        "caller",
        "cancelled",
        "characters",
        "error",
        "id",
        "inference_seconds",
        "method",
        "operation",
        "path",
        "queue_seconds",
        "record",
        "request_bytes",
        "response_bytes",
        "seconds",
        "started",
        "started_ns",
        "status",
        "texts",
        "ticket",
        "tokenization_seconds",
        "tokens",
    )

    def __init__(self, request_id: str, method: str, path: str) -> None:
        self.id = request_id
        self.method = method
        self.path = path
        #: `time.perf_counter()` and `time.time_ns()` when the headers were there.
        self.started = time.perf_counter()
        self.started_ns = time.time_ns()
        self.caller = Caller()
        #: Whether it counts as one of its caller's requests, and the bytes of its body that do.
        self.admitted = False
        self.body_bytes = 0
        #: Its place in the queue of the model.
        self.ticket = Ticket()
        self.record: RequestRecord | None = None
        self.api = self.operation = "none"
        self.status = 0
        #: The code of the error that was answered.
        self.error: str | None = None
        self.request_bytes = self.response_bytes = 0
        self.texts = self.tokens = self.characters = 0
        self.tokenization_seconds = self.queue_seconds = self.inference_seconds = 0.0
        #: Of the whole exchange.
        self.seconds = 0.0
        #: The client closed the connection before it had an answer.
        self.cancelled = False

    def finish(self, record: RequestRecord) -> None:
        """Take over what the service recorded; the exchange ends now."""
        self.seconds = time.perf_counter() - self.started
        record.started = self.started
        self.record = record
        self.api, self.operation = record.api, record.operation
        self.status = record.status
        self.error = record.error
        self.request_bytes, self.response_bytes = record.request_bytes, record.response_bytes
        embeddings = record.embeddings
        if embeddings is None:
            return
        self.texts = len(embeddings.tokens)
        self.tokens = sum(embeddings.tokens)
        self.characters = embeddings.characters
        self.tokenization_seconds = embeddings.timings.tokenization
        self.queue_seconds = embeddings.timings.queue
        self.inference_seconds = embeddings.timings.inference
