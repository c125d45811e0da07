"""Traces, as a collector on this machine receives them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from embedder.server.traces import Tracer
from tests.embedder.core.aws.http_server import Server, serving
from tests.embedder.server.running import GatedSession, Running, bearer, keys_of, running

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SIGNED = bearer("search")
BODY = {"model": "small", "input": "one two"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Return a collector of spans, which keeps each request that it receives."""
    with serving() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{server.url}/")
        yield server
    assert {target for _, target, _, _ in server.requests} == {"/v1/traces"}


@contextmanager
def traced(**options: Any) -> Iterator[Running]:
    """Run a server with the key `search`, and send its spans at the end."""
    tracer = Tracer()
    with running(keys=keys_of("search"), tracer=tracer, **options) as server:
        yield server
    tracer.close()


def resources(collector: Server) -> list[ResourceSpans]:
    """Return the resource of each message that was received, with its spans."""
    messages = [ExportTraceServiceRequest.FromString(body) for *_, body in collector.requests]
    return [resource for message in messages for resource in message.resource_spans]


def spans(collector: Server) -> list[Span]:
    scopes = [scope for resource in resources(collector) for scope in resource.scope_spans]
    return [span for scope in scopes for span in scope.spans]


def attributes(values: list[KeyValue]) -> dict[str, object]:
    return {
        value.key: getattr(value.value, value.value.WhichOneof("value") or "string_value")
        for value in values
    }


def test_a_request_is_a_span_of_its_callers_trace(collector):
    """It has the facts of the log line, and the names of OpenTelemetry's present conventions."""
    with traced() as server:
        headers = {**SIGNED, "traceparent": f"00-{TRACE}-{PARENT}-01"}
        answer = server.post("/v1/embeddings", BODY, headers=headers)
    (span,) = spans(collector)
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert (span.name, span.kind, span.status.code) == ("POST /v1/embeddings", 2, 0)
    expected = {
        "http.request.method": "POST",
        "http.route": "/v1/embeddings",
        "http.response.status_code": 200,
        "url.path": "/v1/embeddings",
        "embedding.requestId": answer.headers["x-request-id"],
        "embedding.operation": "create_embeddings",
        "embedding.key": "search",
        "embedding.texts": 1,
        "embedding.tokens": answer.json()["usage"]["total_tokens"],
    }
    facts = attributes(span.attributes)
    assert expected.items() <= facts.items()
    assert {f"embedding.{name}Ms" for name in ("tokenization", "queue", "inference")} <= set(facts)


def test_no_span_has_what_a_client_made_up(collector):
    """A path that is not served, and a query, could have a text; an address is a person's.

    A malformed `traceparent` begins a trace, as none does. Probes and metrics are no requests.
    """
    with traced() as server:
        assert server.get("/a-secret", headers=SIGNED).status_code == 404
        headers = {**SIGNED, "traceparent": "00-secret"}
        assert server.get("/info?text=a-secret", headers=headers).status_code == 200
        for path in ("/live", "/ready", "/metrics"):
            server.get(path)
    received = spans(collector)
    assert [(span.name, span.parent_span_id) for span in received] == [
        ("GET", b""),
        ("GET /info", b""),
    ]
    assert len({span.trace_id for span in received}) == 2
    assert b"secret" not in b"".join(span.SerializeToString() for span in received)
    assert not any("client.address" in attributes(span.attributes) for span in received)


def test_errors_are_named(collector):
    """A server's error makes the span one, a client's does not."""
    session = GatedSession(failure=RuntimeError("no memory"))
    session.open()
    with traced(session=session) as server:
        assert server.post("/v1/embeddings", BODY, headers=SIGNED).status_code == 500
        assert server.post("/v1/embeddings", BODY).status_code == 401
    failed, refused = spans(collector)
    assert (failed.status.code, refused.status.code) == (2, 0)
    errors = [attributes(span.attributes)["embedding.error"] for span in (failed, refused)]
    assert errors == ["inference_failed", "invalid_api_key"]
    assert "embedding.key" not in attributes(refused.attributes)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "embedding-kit"),
        ({"OTEL_SERVICE_NAME": "search"}, "search"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=search"}, "search"),
    ],
)
def test_the_service_has_a_name(collector, monkeypatch, environ, expected):
    """It is the kit's unless OpenTelemetry's variables say otherwise."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with traced() as server:
        server.get("/health")
    (received,) = resources(collector)
    resource = attributes(received.resource.attributes)
    assert (resource["service.name"], resource["telemetry.sdk.name"]) == (expected, "opentelemetry")
