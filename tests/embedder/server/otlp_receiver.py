"""A collector on this machine that keeps what it receives by OTLP over HTTP."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["Receiver", "attributes"]


class Receiver:
    """Receives on a free port until it is closed.

    Attributes:
        url: Its address, for `OTEL_EXPORTER_OTLP_ENDPOINT`.
        requests: What was received, in order.
    """

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces"
                receiver.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def spans(self) -> list[Span]:
        """All spans."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        """Stop receiving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(values: list[KeyValue]) -> dict[str, object]:
    """Return attributes as Python's values."""
    return {
        value.key: getattr(value.value, value.value.WhichOneof("value") or "string_value")
        for value in values
    }
