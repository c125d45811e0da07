"""The access log: a JSON line on stdout for each request, as on Lambda, and never a text."""

import sys
import threading
import time

import orjson

from embedder.core.settings import Settings
from embedder.http.telemetry import RequestRecord, Telemetry
from embedder.server.exchange import Exchange

__all__ = ["AccessLog"]


class AccessLog(Telemetry):
    """Keeps the service's record of a request until the exchange is over, then writes its line.

    Lambda's metrics record is left out: a server's metrics are read from it.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        # A server receives no request before it is ready.
        self.cold = False
        self._kept = threading.local()

    def write(self, record: RequestRecord) -> None:
        """Keep the record for the caller of the service, which is in the same thread."""
        self._kept.record = record

    def take(self) -> RequestRecord:
        """Return the record of the response that the service has just made in this thread."""
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
        if exchange.caller.name:
            line["key"] = exchange.caller.name
        sys.stdout.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE).decode())
        sys.stdout.flush()
