"""A request to the server: the facts for the log, the metrics and the traces."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from embedder.core.embedding_request import Timings
from embedder.http.telemetry import RequestRecord, Telemetry
from embedder.server.waiting_runs import Ticket


@dataclass(slots=True, eq=False)
class ServerRequest:
    """A request on its way through the server, and what became of it."""

    #: The client's, or a new one.
    id: str
    #: The method in capitals.
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    #: `time.perf_counter()` when the headers were there.
    started: float = field(default_factory=time.perf_counter)
    #: Whether it counts as one of its key's requests, and the bytes of its body that do.
    admitted: bool = False
    body_bytes: int = 0
    #: Its place in the queue of the model, with the name of its key.
    ticket: Ticket = field(default_factory=Ticket)
    #: What the router recorded of the answer, or of the error.
    record: RequestRecord = field(init=False)
    #: Tokens of each text that was embedded.
    tokens: Sequence[int] = ()
    timings: Timings = field(default_factory=Timings)
    #: Seconds from the headers to the answer.
    seconds: float = 0.0
    #: Whether the client closed the connection before it had an answer.
    cancelled: bool = False

    def finish(self, record: RequestRecord) -> None:
        """Take over what the router recorded; the request ends now."""
        self.seconds = time.perf_counter() - self.started
        record.started = self.started
        self.record = record
        if record.embeddings is not None:
            self.tokens, self.timings = record.embeddings.tokens, record.embeddings.timings


class ServerLog(Telemetry):
    """Writes a JSON line on stdout for each request, as on Lambda, and never a text.

    Lambda's metrics record is left out: a server's metrics are read from it.
    """

    def fields(self, request: ServerRequest) -> dict[str, Any]:
        """Return the fields of a request's line."""
        fields = self.line(request.record, time.time(), cold=False)
        del fields["coldStart"]
        fields["queueMs"] = round(request.timings.queue * 1000, 3)
        if request.ticket.key:
            fields["key"] = request.ticket.key
        return fields

    def finish(self, request: ServerRequest) -> None:
        """Write the line of a request."""
        line = orjson.dumps(self.fields(request), option=orjson.OPT_APPEND_NEWLINE)
        sys.stdout.write(line.decode())
        sys.stdout.flush()
