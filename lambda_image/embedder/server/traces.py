"""OpenTelemetry traces: a span for each request, sent to a collector by OTLP over HTTP.

A request that carries `traceparent` (https://www.w3.org/TR/trace-context/) becomes part of its
caller's trace, and each response carries the `traceparent` of its own span. OpenTelemetry's own
variables configure the rest: the headers for the collector and its certificate, the service's name
and attributes, the sampler and the batches
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).

A span has the names of https://opentelemetry.io/docs/specs/semconv/http/http-spans/, and what the
log line has. Its child spans are the stages of a request that embeds: `tokenization`, `queue`, and
`inference` from the beginning of its first run to the end of its last. No span has a text, a vector
or a key.

OpenTelemetry's ASGI middleware takes 189 µs of processor time for a request, and this module 69. It
would replace the twenty lines that start and end a span, and none of the rest.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as OpenTelemetrySpan
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace import Tracer as OpenTelemetryTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from embedder import __version__
from embedder.core.errors import SettingsError
from embedder.server.exchange import Exchange

_SERVICE = "embedding-kit"
#: A server that ends waits this long for its last spans.
_CLOSE_SECONDS = 3.0


@dataclass(slots=True)
class Span:
    """The span of one request."""

    _span: OpenTelemetrySpan
    _tracer: OpenTelemetryTracer
    #: The headers that its response carries.
    headers: dict[str, str]

    def end(self, exchange: Exchange) -> None:
        """End the span of a finished request."""
        span = self._span
        if span.is_recording():
            # Only a path that is served names the span: what callers make up has no end.
            if exchange.record.operation != "none":
                span.update_name(f"{exchange.method} {exchange.path}")
            span.set_attributes(_attributes(exchange))
            if exchange.record.status >= 500:
                span.set_status(StatusCode.ERROR)
            self._add_stages(exchange)
        span.end()

    def _add_stages(self, exchange: Exchange) -> None:
        runs, entered = exchange.ticket.runs, exchange.ticket.entered
        if not runs:
            return
        began, ended = min(run.began for run in runs), max(run.ended for run in runs)
        context = set_span_in_context(self._span)
        # The clock of the queue shows the seconds since an unknown time.
        origin = time.time_ns() - time.monotonic_ns()
        for name, start, end in (
            ("tokenization", entered - exchange.timings.tokenization, entered),
            ("queue", entered, began),
            ("inference", began, ended),
        ):
            stage = self._tracer.start_span(name, context, start_time=origin + int(start * 1e9))
            stage.end(origin + int(end * 1e9))


class Tracer:
    """Makes the spans, and sends them in a separate thread to a collector's address without a path.

    Spans that cannot be sent, or that are more than its queue holds, are dropped: no request waits
    for the collector.
    """

    def __init__(self, endpoint: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise SettingsError(
                "--otlp-endpoint (OTEL_EXPORTER_OTLP_ENDPOINT) must be an address such as "
                f"http://127.0.0.1:4318; found {endpoint!r}."
            )
        ours = Resource({SERVICE_NAME: _SERVICE, SERVICE_VERSION: __version__})
        # What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say replaces ours.
        resource = Resource.create(ours.merge(OTELResourceDetector().detect()).attributes)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces"))
        )
        self._tracer = self._provider.get_tracer("embedder.server", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def start(self, exchange: Exchange, headers: Mapping[str, str]) -> Span:
        """Start the span of a request, as part of its caller's trace if it names one."""
        span = self._tracer.start_span(
            exchange.method,
            context=self._propagator.extract(headers),
            kind=SpanKind.SERVER,
            start_time=exchange.started_ns,
        )
        response_headers: dict[str, str] = {}
        self._propagator.inject(response_headers, context=set_span_in_context(span))
        return Span(span, self._tracer, response_headers)

    def close(self) -> None:
        """Send what is left, but do not wait long for a collector that is gone."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(_CLOSE_SECONDS)


def _attributes(exchange: Exchange) -> dict[str, AttributeValue]:
    record, timings = exchange.record, exchange.timings
    attributes: dict[str, AttributeValue] = {
        "http.request.method": exchange.method,
        "http.response.status_code": record.status,
        "http.request.body.size": record.request_bytes,
        "http.response.body.size": record.response_bytes,
        "embedding.request_id": exchange.id,
        "embedding.api": record.api,
        "embedding.operation": record.operation,
        "embedding.texts": len(exchange.tokens),
        "embedding.tokens": sum(exchange.tokens),
        "embedding.tokenization_seconds": timings.tokenization,
        "embedding.queue_seconds": timings.queue,
        "embedding.inference_seconds": timings.inference,
    }
    if record.operation != "none":
        attributes["http.route"] = exchange.path
    if exchange.caller:
        attributes["embedding.key"] = exchange.caller
    if record.error is not None:
        attributes["error.type"] = record.error
    return attributes
