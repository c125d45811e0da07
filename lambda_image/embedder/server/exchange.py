"""One request and its answer: the facts for the access log, the metrics and the traces."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from embedder.core.embedding_request import Timings
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
    #: What the router recorded of the answer, or of the error.
    record: RequestRecord = field(init=False)
    #: Of each text that was embedded.
    tokens: Sequence[int] = ()
    timings: Timings = field(default_factory=Timings)
    #: Of the whole exchange.
    seconds: float = 0.0
    #: The client closed the connection before it had an answer.
    cancelled: bool = False

    def finish(self, record: RequestRecord) -> None:
        """Take over what the router recorded; the exchange ends now."""
        self.seconds = time.perf_counter() - self.started
        record.started = self.started
        self.record = record
        if record.embeddings is not None:
            self.tokens, self.timings = record.embeddings.tokens, record.embeddings.timings


class AccessLog(Telemetry):
    """Writes a JSON line on stdout for each exchange, as on Lambda, and never a text.

    Lambda's metrics record is left out: a server's metrics are read from it.
    """

    def finish(self, exchange: Exchange) -> None:
        """Write the line of an exchange."""
        line = self.line(exchange.record, time.time(), cold=False)
        del line["coldStart"]
        line["queueMs"] = round(exchange.timings.queue * 1000, 3)
        if exchange.caller:
            line["key"] = exchange.caller
        sys.stdout.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE).decode())
        sys.stdout.flush()
