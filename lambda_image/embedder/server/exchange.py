"""One request and its answer: the facts for the access log, the metrics and the traces."""

import sys
import threading
import time
from dataclasses import dataclass, field

import orjson

from embedder.core.settings import Settings
from embedder.http.telemetry import RequestRecord, Telemetry
from embedder.server.queue import Ticket


@dataclass(slots=True, eq=False)
class Exchange:
    """A request on its way through the server."""

    #: The client's, or a new one.
    id: str
    #: In capitals.
    method: str
    path: str
    #: The name of the caller's key, never the key; empty without keys.
    caller: str = ""
    #: `time.perf_counter()` and `time.time_ns()` when the headers were there.
    started: float = field(default_factory=time.perf_counter)
    started_ns: int = field(default_factory=time.time_ns)
    #: Whether it counts as one of its caller's requests, and the bytes of its body that do.
    admitted: bool = False
    body_bytes: int = 0
    #: Its place in the queue of the model.
    ticket: Ticket = field(default_factory=Ticket)
    record: RequestRecord | None = None
    api: str = "none"
    operation: str = "none"
    status: int = 0
    #: The code of the error that was answered.
    error: str | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    texts: int = 0
    tokens: int = 0
    tokenization_seconds: float = 0.0
    queue_seconds: float = 0.0
    inference_seconds: float = 0.0
    #: Of the whole exchange.
    seconds: float = 0.0
    #: The client closed the connection before it had an answer.
    cancelled: bool = False

    def finish(self, record: RequestRecord) -> None:
        """Take over what the router recorded; the exchange ends now."""
        self.seconds = time.perf_counter() - self.started
        record.started = self.started
        self.record = record
        self.api, self.operation = record.api, record.operation
        self.status, self.error = record.status, record.error
        self.request_bytes, self.response_bytes = record.request_bytes, record.response_bytes
        embeddings = record.embeddings
        if embeddings is None:
            return
        self.texts, self.tokens = len(embeddings.tokens), sum(embeddings.tokens)
        timings = embeddings.timings
        self.tokenization_seconds, self.queue_seconds = timings.tokenization, timings.queue
        self.inference_seconds = timings.inference


class AccessLog(Telemetry):
    """Writes a JSON line on stdout for each exchange, as on Lambda, and never a text.

    The router's record is kept until the exchange is over. Lambda's metrics record is left out: a
    server's metrics are read from it.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        # A server receives no request before it is ready.
        self.cold = False
        self._kept = threading.local()

    def write(self, record: RequestRecord) -> None:
        """Keep the record for the caller of the router, which is in the same thread."""
        self._kept.record = record

    def take(self) -> RequestRecord:
        """Return the record of the response that the router has just made in this thread."""
        record: RequestRecord = self._kept.record
        return record

    def finish(self, exchange: Exchange) -> None:
        """Write the line of an exchange."""
        if exchange.record is None:
            return
        line = self.line(exchange.record, time.time(), cold=False)
        del line["coldStart"]
        line["status"] = exchange.status
        line["queueMs"] = round(exchange.queue_seconds * 1000, 3)
        if exchange.caller:
            line["key"] = exchange.caller
        sys.stdout.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE).decode())
        sys.stdout.flush()
