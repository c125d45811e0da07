"""Traces, as a collector on this machine receives them."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from embedder.core.embedding_request import Timings
from embedder.http.telemetry import RequestRecord
from embedder.server.exchange import Exchange
from embedder.server.queue import RunTimes, Ticket
from embedder.server.traces import Tracer
from tests.embedder.server.conftest import Receiver, attributes

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


@pytest.fixture
def tracer(receiver: Receiver) -> Iterator[Tracer]:
    tracer = Tracer(receiver.url)
    yield tracer
    tracer.close()


def trace(tracer: Tracer, headers: dict[str, str], **values: Any) -> str:
    """Trace a request; return the `traceparent` of its response."""
    exchange = Exchange("r-1", "POST", "/v1/embeddings")
    exchange.started_ns = 1_800_000_000_000_000_000
    span = tracer.start(exchange, headers)
    exchange.caller, exchange.record = "search", RequestRecord("r-1")
    record = exchange.record
    record.api, record.operation, record.status = "openai", "create_embeddings", 200
    for name, value in values.items():
        setattr(exchange if hasattr(exchange, name) else record, name, value)
    span.end(exchange)
    return span.headers["traceparent"]


def test_a_span_is_part_of_its_callers_trace(tracer, receiver):
    """The collector receives it with the caller's trace, and the response names it."""
    answered = trace(
        tracer,
        {"traceparent": f"00-{TRACE}-{PARENT}-01"},
        tokens=(10, 10, 20),
        request_bytes=100,
        response_bytes=5000,
        timings=Timings(tokenization=0.25, queue=0.5, inference=1.5),
    )
    tracer.close()
    (span,) = receiver.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert TRACEPARENT.fullmatch(answered).groups() == (TRACE, span.span_id.hex(), "01")
    assert (span.name, span.kind, span.status.code) == ("POST /v1/embeddings", 2, 0)
    assert span.start_time_unix_nano == 1_800_000_000_000_000_000
    assert attributes(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/embeddings",
        "http.response.status_code": 200,
        "http.request.body.size": 100,
        "http.response.body.size": 5000,
        "embedding.request_id": "r-1",
        "embedding.api": "openai",
        "embedding.operation": "create_embeddings",
        "embedding.key": "search",
        "embedding.texts": 3,
        "embedding.tokens": 40,
        "embedding.tokenization_seconds": 0.25,
        "embedding.queue_seconds": 0.5,
        "embedding.inference_seconds": 1.5,
    }


def test_the_stages_are_spans_of_their_own(tracer, receiver):
    """They follow each other, below the span of their request."""
    ticket = Ticket()
    ticket.entered = time.monotonic() - 10
    ticket.runs = [
        RunTimes(2, ticket.entered + 2, ticket.entered + 3),
        RunTimes(1, ticket.entered + 5, ticket.entered + 5.5),
    ]
    trace(tracer, {}, ticket=ticket, timings=Timings(tokenization=0.25))
    tracer.close()
    *stages, request = receiver.spans
    assert request.name == "POST /v1/embeddings"
    assert {stage.parent_span_id for stage in stages} == {request.span_id}
    assert {stage.trace_id for stage in stages} == {request.trace_id}
    assert [stage.name for stage in stages] == ["tokenization", "queue", "inference"]
    ends = [stage.end_time_unix_nano for stage in stages]
    assert [stage.start_time_unix_nano for stage in stages[1:]] == ends[:-1]
    lengths = [(stage.end_time_unix_nano - stage.start_time_unix_nano) / 1e9 for stage in stages]
    assert lengths == pytest.approx([0.25, 2.0, 3.5], abs=1e-3)


def test_a_request_without_a_trace_begins_one(tracer, receiver):
    """So does one with a malformed `traceparent`; two requests have two traces."""
    found = [trace(tracer, {}), trace(tracer, {"traceparent": "00-xyz"})]
    tracer.close()
    spans = receiver.spans
    assert [span.parent_span_id for span in spans] == [b"", b""]
    assert [TRACEPARENT.fullmatch(header)[1] for header in found] == [
        span.trace_id.hex() for span in spans
    ]
    assert len(set(found)) == 2


def test_a_trace_that_its_caller_does_not_sample_is_not_sent(tracer, receiver):
    """Its identifiers still reach the response."""
    answered = trace(tracer, {"traceparent": f"00-{TRACE}-{PARENT}-00"})
    tracer.close()
    assert receiver.spans == []
    assert TRACEPARENT.fullmatch(answered)[1] == TRACE
    assert TRACEPARENT.fullmatch(answered)[3] == "00"


def test_errors_are_named(tracer, receiver):
    """A server's error makes the span one; a path that is not served does not name it."""
    trace(tracer, {}, status=500, error="inference_failed")
    trace(tracer, {}, status=404, error="unknown_path", operation="none", caller="")
    tracer.close()
    failed, unknown = receiver.spans
    assert failed.status.code == 2
    assert attributes(failed.attributes)["error.type"] == "inference_failed"
    assert (unknown.name, unknown.status.code) == ("POST", 0)
    assert not {"http.route", "embedding.key"} & attributes(unknown.attributes).keys()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "embedding-kit"),
        ({"OTEL_SERVICE_NAME": "search"}, "search"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=search"}, "search"),
    ],
)
def test_the_service_has_a_name(receiver, monkeypatch, environ, expected):
    """It is the kit's unless OpenTelemetry's variables say otherwise."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    tracer = Tracer(f"{receiver.url}/")
    trace(tracer, {})
    tracer.close()
    (request,) = receiver.requests
    resource = attributes(request.resource_spans[0].resource.attributes)
    assert (resource["service.name"], resource["telemetry.sdk.name"]) == (expected, "opentelemetry")
