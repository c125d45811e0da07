"""OpenTelemetry traces: a span for each request, sent to a collector by OTLP over HTTP.

The span is that of OpenTelemetry's ASGI middleware, with the facts of the log line. A request that
carries `traceparent` (https://www.w3.org/TR/trace-context/) becomes part of its caller's trace.
OpenTelemetry's own variables configure all: the collector's address, headers and certificate, the
service's name and attributes, the sampler and the batches
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).

No span has a text, a vector or a key: the middleware gets neither the query, in which a mistaken
client could send a text, nor the client's address.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from embedder.server.server_request import ServerRequest

_Application = Callable[..., Awaitable[None]]


class Tracer:
    """Makes the spans, and sends them in a separate thread.

    Spans that cannot be sent, or that are more than its queue holds, are dropped: no request waits
    for the collector.
    """

    def __init__(self) -> None:
        # What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say replaces our name.
        ours = Resource({SERVICE_NAME: "embedding-kit"})
        resource = Resource.create(ours.merge(OTELResourceDetector().detect()).attributes)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    def around(self, app: _Application, *, without: tuple[str, ...]) -> _Application:
        """Return the application with a span around each request, but for those of some paths."""
        # The names of the attributes are those of the present conventions:
        # https://opentelemetry.io/docs/specs/semconv/http/http-spans/
        os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
        middleware = OpenTelemetryMiddleware(
            app,
            excluded_urls=",".join(f"{path}$" for path in without),
            # What callers make up has no end, so only `describe` names a span by its path.
            default_span_details=lambda scope: (scope["method"], {}),
            tracer_provider=self._provider,
            exclude_spans=["receive", "send"],
        )

        async def traced(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
            await middleware({**scope, "query_string": b"", "client": None}, receive, send)

        return traced

    def describe(self, request: ServerRequest, fields: Mapping[str, Any]) -> None:
        """Add the fields of a finished request's log line to its span, the current one."""
        span = trace.get_current_span()
        served = request.record.operation != "none"
        if served:
            span.update_name(f"{request.method} {request.path}")
            span.set_attribute("http.route", request.path)
        # A path that is not served may have anything in it.
        span.set_attribute("url.path", request.path if served else "")
        for name, value in fields.items():
            if isinstance(value, str | int | float):
                span.set_attribute(f"embedding.{name}", value)

    def close(self) -> None:
        """Send the last spans; OpenTelemetry's variables limit the wait for a collector."""
        self._provider.shutdown()
