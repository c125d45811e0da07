"""A collector on this machine that keeps what it receives by OTLP over HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.embedder.core.aws.http_server import Server, serving


@dataclass
class Receiver:
    """Receives by a server, the address of which is for `OTEL_EXPORTER_OTLP_ENDPOINT`."""

    server: Server

    @property
    def url(self) -> str:
        """The collector's address."""
        return self.server.url

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        """The messages received, in order."""
        assert {target for _, target, _, _ in self.server.requests} <= {"/v1/traces"}
        return [ExportTraceServiceRequest.FromString(body) for *_, body in self.server.requests]

    @property
    def spans(self) -> list[Span]:
        """All spans."""
        resources = [resource for request in self.requests for resource in request.resource_spans]
        scopes = [scope for resource in resources for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]


def attributes(values: list[KeyValue]) -> dict[str, object]:
    return {
        value.key: getattr(value.value, value.value.WhichOneof("value") or "string_value")
        for value in values
    }


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving() as server:
        yield Receiver(server)
