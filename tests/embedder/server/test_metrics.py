"""`/metrics`, parsed as Prometheus parses it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from embedder.core.embedding_request import Embeddings, Timings
from embedder.http.telemetry import RequestRecord
from embedder.server.metrics import Metrics
from embedder.server.server_request import ServerRequest
from embedder.server.waiting_runs import Ticket

#: Types and labels of TEI's metrics at 0d124dc that mean the same here.
TEI = {
    **dict.fromkeys(("te_request_count", "te_request_success"), ("counter", {"method"})),
    "te_request_failure": ("counter", {"err"}),
    **dict.fromkeys(("te_embed_count", "te_embed_success"), ("counter", set())),
    **{
        f"te_{name}": ("histogram", {"le"})
        for name in (
            *("request_duration", "request_tokenization_duration", "request_queue_duration"),
            *("request_inference_duration", "request_input_length"),
            *("batch_next_size", "batch_next_tokens"),
        )
    },
    "te_queue_size": ("gauge", set()),
}


@pytest.fixture
def queue() -> SimpleNamespace:
    return SimpleNamespace(waiting_runs=0, waiting_tokens=0, seconds=0.0)


@pytest.fixture
def metrics(queue: Any) -> Metrics:
    return Metrics(queue)


def server_request(tokens: Sequence[int] = (), texts: int = 0, **values: Any) -> ServerRequest:
    """Return a request with an answer of `tokens`, or of `texts` in the queue, and with values."""
    record = RequestRecord("1")
    record.api, record.operation, record.status = "openai", "create_embeddings", 200
    for name, value in values.items():
        setattr(record, name, value)
    if tokens:
        timings = Timings(0.01, inference=0.3, queue=0.15)
        record.embeddings = Embeddings(
            np.zeros((len(tokens), 1), np.float32), tokens, timings=timings
        )
    ticket = Ticket("search", texts=texts)
    return ServerRequest("POST", "/v1/embeddings", {}, record, seconds=0.5, ticket=ticket)


def samples(metrics: Metrics) -> dict[str, float]:
    """Return each sample's value by its name and labels, as `name{label=value,...}`."""
    values = {}
    for family in text_string_to_metric_families(metrics.render()[0].decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            # The parser ends the names of all counters with `_total`; TEI's have no such end.
            name = sample.name.removesuffix("_total") if family.name in TEI else sample.name
            values[f"{name}{{{labels}}}" if labels else name] = sample.value
    return values


def test_teis_metrics_have_its_names_types_and_labels(metrics):
    """A dashboard for TEI finds them before the first request, so that its rates begin at zero."""
    body, content_type = metrics.render()
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    exposed = {
        name: (families[name].type, {label for s in families[name].samples for label in s.labels})
        for name in TEI
    }
    assert exposed == TEI
    for line in (b'te_request_count{method="single"} 0.0', b"te_embed_count 0.0"):
        assert line in body.splitlines()


def test_an_answered_request_is_counted(metrics):
    """It counts by key, API and status, and its durations are seconds."""
    metrics.observe(server_request((7, 20)))
    durations = {"": 0.5, "_tokenization": 0.01, "_queue": 0.15, "_inference": 0.3}
    assert counted(metrics) == {
        total(200): 1,
        "embedding_tokens_total{api=openai,key=search}": 27,
        **dict.fromkeys(("te_request_count{method=batch}", "te_request_success{method=batch}"), 1),
        **dict.fromkeys(("te_embed_count", "te_embed_success", "te_request_input_length_count"), 2),
        "te_request_input_length_sum": 27,
        **{f"te_request{stage}_duration_sum": seconds for stage, seconds in durations.items()},
        **{f"te_request{stage}_duration_count": 1 for stage in durations},
    }


@pytest.mark.parametrize(
    ("request_facts", "method"),
    [
        ({"error": "out_of_time", "status": 503, "texts": 5}, "batch"),
        ({"error": "invalid_field", "status": 400}, "single"),
        ({"error": "overloaded", "status": 429, "operation": "none"}, "single"),
        ({"error": "invalid_api_key", "status": 401, "operation": "none"}, None),
        ({"operation": "tei_tokenize"}, None),
    ],
)
def test_a_request_without_vectors_is_a_failure_or_not_counted_by_tei(
    metrics, request_facts, method
):
    """A failure has the code of its error, and the texts that came to the queue.

    A request that is refused before its operation is known counts only if the queue is full.
    """
    request = server_request(**request_facts)
    metrics.observe(request)
    failed = {
        f"te_request_count{{method={method}}}": 1,
        f"te_request_failure{{err={request.record.error}}}": 1,
        **({"te_embed_count": 5} if method == "batch" else {}),
    }
    all_requests = {total(request.record.status, request.record.operation): 1}
    assert counted(metrics) == {**all_requests, **(failed if method else {})}


def total(status: int, operation: str = "create_embeddings") -> str:
    labels = f"api=openai,key=search,operation={operation},status={status}"
    return f"embedding_requests_total{{{labels}}}"


def counted(metrics: Metrics) -> dict[str, float]:
    """Return what is not zero of requests, without the buckets of histograms."""
    return {
        name: value
        for name, value in samples(metrics).items()
        if value and name.startswith(("embedding", "te_")) and "_bucket" not in name
    }


def test_the_queue_the_runs_and_the_process_are_measured(metrics, queue):
    """Gauges are read when they are asked for; the process has the names of all clients."""
    queue.waiting_runs, queue.waiting_tokens, queue.seconds = 3, 400, 0.25
    metrics.observe_run(8, 128)
    sampled = samples(metrics)
    expected = {
        "te_queue_size": 3,
        "embedding_queue_tokens": 400,
        "embedding_queue_seconds": 0.25,
        "te_batch_next_size_sum": 8,
        "te_batch_next_tokens_bucket{le=64.0}": 0,
        "te_batch_next_tokens_bucket{le=128.0}": 1,
    }
    assert expected.items() <= sampled.items()
    assert min(sampled["process_resident_memory_bytes"], sampled["process_cpu_seconds_total"]) > 0
