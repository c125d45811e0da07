"""A request to the server: the facts for the log, the metrics and the traces."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from embedder.http.telemetry import RequestRecord, Telemetry
from embedder.server.waiting_runs import Ticket


@dataclass(slots=True, eq=False)
class ServerRequest:
    """A request on its way through the server, and what became of it."""

    #: The method in capitals.
    method: str
    path: str
    headers: Mapping[str, str]
    #: Its id, and what the router recorded of the answer, or of the error.
    record: RequestRecord
    #: `time.perf_counter()` when the headers were there.
    started: float = field(default_factory=time.perf_counter)
    #: Whether it counts as one of its key's requests, and the bytes of its body that do.
    admitted: bool = False
    body_bytes: int = 0
    #: Seconds from the headers to the answer.
    seconds: float = 0.0
    #: Its place in the queue of the model, with the name of its key.
    ticket: Ticket = field(default_factory=Ticket)


class ServerLog(Telemetry):
    """Writes a JSON line on stdout for each request, as on Lambda, and never a text.

    Lambda's metrics record is left out: a server's metrics are read from it.
    """

    def fields(self, request: ServerRequest) -> dict[str, Any]:
        """Return the fields of a request's line."""
        fields = self.line(request.record, time.time(), cold=False)
        del fields["coldStart"]
        embeddings = request.record.embeddings
        fields["queueMs"] = round(embeddings.timings.queue * 1000, 3) if embeddings else 0.0
        if request.ticket.key:
            fields["key"] = request.ticket.key
        return fields

    def finish(self, request: ServerRequest) -> None:
        """Write the line of a request."""
        line = orjson.dumps(self.fields(request), option=orjson.OPT_APPEND_NEWLINE)
        sys.stdout.write(line.decode())
        sys.stdout.flush()
