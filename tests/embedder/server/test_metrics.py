"""`/metrics`, parsed as Prometheus parses it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from embedder.core.embedding_request import Timings
from embedder.core.model_runner import TokenBatch
from embedder.http.telemetry import RequestRecord
from embedder.server.metrics import Metrics
from embedder.server.server_request import ServerRequest
from embedder.server.waiting_runs import Ticket, WaitingRun

#: Names, types and labels in TEI at 0d124dc that mean the same here.
TEI = {
    "te_request_count": ("counter", {"method"}),
    "te_request_success": ("counter", {"method"}),
    "te_request_failure": ("counter", {"err"}),
    "te_embed_count": ("counter", set()),
    "te_embed_success": ("counter", set()),
    "te_request_duration": ("histogram", {"le"}),
    "te_request_tokenization_duration": ("histogram", {"le"}),
    "te_request_queue_duration": ("histogram", {"le"}),
    "te_request_inference_duration": ("histogram", {"le"}),
    "te_request_input_length": ("histogram", {"le"}),
    "te_batch_next_size": ("histogram", {"le"}),
    "te_batch_next_tokens": ("histogram", {"le"}),
    "te_queue_size": ("gauge", set()),
}
#: A duration's place in the names of TEI's metrics: the whole, and its stages.
STAGES = ("", "_tokenization", "_queue", "_inference")


@pytest.fixture
def queue() -> SimpleNamespace:
    return SimpleNamespace(waiting_runs=0, waiting_tokens=0, seconds=0.0)


@pytest.fixture
def metrics(queue: Any) -> Metrics:
    return Metrics(queue)


def server_request(*tokens: int, **values: Any) -> ServerRequest:
    request = ServerRequest("1", "POST", "/v1/embeddings", ticket=Ticket("search"))
    request.tokens, request.record = tokens, RequestRecord("1")
    record = request.record
    record.api, record.operation, record.status = "openai", "create_embeddings", 200
    for name, value in values.items():
        setattr(request if hasattr(request, name) else record, name, value)
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


def test_an_answered_request_is_counted(metrics):
    """It counts by key, API and status, and its durations are seconds."""
    timings = Timings(tokenization=0.01, queue=0.15, inference=0.3)
    metrics.observe(server_request(7, 20, seconds=0.5, timings=timings))
    metrics.observe(server_request(5))
    sampled = samples(metrics)
    labels = "{api=openai,key=search,operation=create_embeddings,status=200}"
    assert sampled[f"embedding_requests_total{labels}"] == 2
    assert sampled["embedding_tokens_total{api=openai,key=search}"] == 32
    assert sampled["te_request_count{method=batch}"] == 1
    assert sampled["te_request_success{method=single}"] == 1
    assert (sampled["te_embed_count"], sampled["te_embed_success"]) == (3, 3)
    sums = [sampled[f"te_request{stage}_duration_sum"] for stage in STAGES]
    assert sums == [0.5, 0.01, 0.15, 0.3]
    assert sampled["te_request_duration_count"] == 2
    assert sampled["te_request_input_length_sum"] == 32
    assert sampled["te_request_input_length_bucket{le=8.0}"] == 2


def test_the_texts_of_a_failed_request_are_counted(metrics):
    """As far as they came to the queue."""
    request = server_request(error="inference_failed", status=500)
    ids = np.ones((5, 4), dtype=np.int64)
    request.ticket.runs = [WaitingRun(request.ticket, TokenBatch(ids, ids))]
    metrics.observe(request)
    sampled = samples(metrics)
    assert (sampled["te_embed_count"], sampled["te_embed_success"]) == (5, 0)
    assert sampled["te_request_count{method=batch}"] == 1


@pytest.mark.parametrize(
    ("values", "err"),
    [
        ({"error": "overloaded", "status": 429}, "overloaded"),
        # The server refuses such a request before it reads the body.
        ({"error": "overloaded", "status": 429, "operation": "none"}, "overloaded"),
        ({"error": "out_of_time", "status": 503}, "overloaded"),
        ({"error": "batch_too_large", "status": 422}, "batch_size"),
        ({"error": "input_too_long", "status": 413}, "tokenization"),
        ({"error": "inference_failed", "status": 500}, "inference"),
        ({"error": "internal_error", "status": 500}, "inference"),
        ({"error": "wrong_model_type", "status": 424}, "model_type"),
        ({"error": "invalid_field", "status": 400}, "validation"),
        ({"cancelled": True, "status": 499}, "dropped"),
    ],
)
def test_a_failed_request_has_teis_kind(metrics, values, err):
    """It counts as a failure of its kind, and not among the durations."""
    metrics.observe(server_request(**values))
    sampled = samples(metrics)
    failures = {
        name: n for name, n in sampled.items() if name.startswith("te_request_failure") and n
    }
    assert failures == {f"te_request_failure{{err={err}}}": 1}
    assert (sampled["te_request_count{method=single}"], sampled["te_request_duration_count"]) == (
        1,
        0,
    )
    operation = values.get("operation", "create_embeddings")
    labels = f"{{api=openai,key=search,operation={operation},status={values['status']}}}"
    assert sampled[f"embedding_requests_total{labels}"] == 1


@pytest.mark.parametrize(
    "values",
    [
        {"operation": "none", "error": "invalid_api_key", "status": 401},
        {"operation": "none", "error": "rate_limit_exceeded", "status": 429},
        {"operation": "tei_tokenize"},
        {"operation": "list_models"},
    ],
)
def test_teis_counters_have_only_what_embeds(metrics, values):
    """What was refused before it, or embeds nothing, counts by key, API and status alone."""
    metrics.observe(server_request(**values))
    sampled = samples(metrics)
    assert sum(n for name, n in sampled.items() if name.startswith("te_request_count")) == 0
    assert sum(n for name, n in sampled.items() if name.startswith("embedding_requests")) == 1


def test_the_queue_is_read_when_it_is_asked_for(metrics, queue):
    """The gauges need no call for each request."""
    queue.waiting_runs, queue.waiting_tokens, queue.seconds = 3, 400, 0.25
    sampled = samples(metrics)
    assert sampled["te_queue_size"] == 3
    assert sampled["embedding_queue_tokens"] == 400
    assert sampled["embedding_queue_seconds"] == 0.25


def test_runs_and_the_process_are_measured(metrics):
    """Memory and processor time have the names that all Prometheus clients use."""
    metrics.observe_run(8, 128)
    sampled = samples(metrics)
    assert sampled["te_batch_next_size_sum"] == 8
    assert sampled["te_batch_next_tokens_bucket{le=64.0}"] == 0
    assert sampled["te_batch_next_tokens_bucket{le=128.0}"] == 1
    assert sampled["process_resident_memory_bytes"] > 0
    assert sampled["process_cpu_seconds_total"] > 0
