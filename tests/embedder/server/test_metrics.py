"""`/metrics`, parsed as Prometheus parses it."""

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
    "te_request_duration": ("histogram", {"le"}),
    "te_request_tokenization_duration": ("histogram", {"le"}),
    "te_request_queue_duration": ("histogram", {"le"}),
    "te_request_inference_duration": ("histogram", {"le"}),
    "te_request_input_length": ("histogram", {"le"}),
    "te_batch_next_size": ("histogram", {"le"}),
    "te_batch_next_tokens": ("histogram", {"le"}),
    "te_queue_size": ("gauge", set()),
}


@pytest.fixture
def queue() -> SimpleNamespace:
    return SimpleNamespace(waiting_runs=0, waiting_tokens=0, seconds=0.0)


@pytest.fixture
def metrics(queue: Any) -> Metrics:
    return Metrics(queue)


def server_request(
    *tokens: int, timings: Timings | None = None, texts: int = 0, **values: Any
) -> ServerRequest:
    """Return a request with an answer of `tokens`, or of `texts` in the queue, and with values."""
    record = RequestRecord("1")
    record.api, record.operation, record.status = "openai", "create_embeddings", 200
    for name, value in values.items():
        setattr(record, name, value)
    if tokens:
        vectors = np.zeros((len(tokens), 1), dtype=np.float32)
        record.embeddings = Embeddings(vectors, tokens, timings=timings or Timings())
    request = ServerRequest(
        "POST", "/v1/embeddings", {}, record, ticket=Ticket("search", texts=texts)
    )
    request.seconds = 0.5
    return request


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


def test_failed_requests_are_counted_by_their_error(metrics):
    """Each counts with the texts that came to the queue, and has no durations."""
    metrics.observe(server_request(error="out_of_time", status=503, texts=5))
    metrics.observe(server_request(error="invalid_field", status=400))
    assert counted(metrics) == {
        **dict.fromkeys((total(503), total(400)), 1),
        **{f"te_request_count{{method={method}}}": 1 for method in ("batch", "single")},
        "te_embed_count": 5,
        **{f"te_request_failure{{err={err}}}": 1 for err in ("out_of_time", "invalid_field")},
    }


def test_an_answered_request_is_counted(metrics):
    """It counts by key, API and status, and its durations are seconds."""
    metrics.observe(server_request(7, 20, timings=Timings(0.01, inference=0.3, queue=0.15)))
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


def test_tei_counts_only_what_embeds(metrics):
    """Of what was refused before it, only a full queue; the body was not read."""
    for operation, error, status in (
        ("none", "overloaded", 429),
        ("none", "invalid_api_key", 401),
        ("tei_tokenize", None, 200),
        ("list_models", None, 200),
    ):
        metrics.observe(server_request(operation=operation, error=error, status=status))
        assert counted(metrics)[total(status, operation)] == 1
    assert counted(metrics)["te_request_count{method=single}"] == 1
    assert counted(metrics)["te_request_failure{err=overloaded}"] == 1


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
