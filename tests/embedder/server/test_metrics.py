"""`/metrics`, as Prometheus reads it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from embedder.core.embedding_request import Embeddings, Timings
from embedder.http.telemetry import RequestRecord
from embedder.server.metrics import Metrics
from embedder.server.server_request import ServerRequest
from embedder.server.waiting_runs import Ticket


@pytest.fixture
def queue() -> SimpleNamespace:
    return SimpleNamespace(waiting_runs=0, seconds=0.0)


@pytest.fixture
def metrics(queue: Any) -> Metrics:
    return Metrics(queue)


def server_request(**values: Any) -> ServerRequest:
    """Return a request of half a second, with values in its record."""
    record = RequestRecord("1")
    record.api, record.operation, record.status = "openai", "create_embeddings", 200
    for name, value in values.items():
        setattr(record, name, value)
    return ServerRequest("POST", "/", {}, record, seconds=0.5, ticket=Ticket("search"))


def values(metrics: Metrics) -> dict[str, float]:
    """Return the samples above zero by name and labels, without the buckets of histograms."""
    lines = metrics.render()[0].decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if line[0] != "#" and "_bucket" not in line)
    return {name: float(value) for name, _, value in samples if float(value)}


def embedding_values(metrics: Metrics) -> dict[str, float]:
    """Return those that are not of the process."""
    return {name: value for name, value in values(metrics).items() if name.startswith("embedding")}


def total(status: int, operation: str = "create_embeddings") -> str:
    labels = f'api="openai",key="search",operation="{operation}",status="{status}"'
    return f"embedding_requests_total{{{labels}}}"


def test_an_answered_request_is_counted(metrics):
    """It counts by key, API and status, and its durations are seconds."""
    timings = Timings(0.01, inference=0.3, queue=0.15)
    vectors = np.zeros((2, 1), np.float32)
    metrics.observe(server_request(embeddings=Embeddings(vectors, (7, 20), timings=timings)))
    stages = {"request": 0.5, "tokenization": 0.01, "queue": 0.15, "inference": 0.3}
    duration = "embedding_duration_seconds"
    assert embedding_values(metrics) == {
        total(200): 1,
        'embedding_tokens_total{api="openai",key="search"}': 27,
        **{f'{duration}_sum{{stage="{stage}"}}': seconds for stage, seconds in stages.items()},
        **{f'{duration}_count{{stage="{stage}"}}': 1 for stage in stages},
    }


@pytest.mark.parametrize(
    "record",
    [
        {"error": "out_of_time", "status": 503, "operation": "create_embeddings"},
        {"error": "invalid_api_key", "status": 401, "operation": "none"},
        {"status": 200, "operation": "tei_tokenize"},
    ],
)
def test_a_request_without_vectors_has_no_durations(metrics, record):
    """A request that ended early would make the quantiles better."""
    metrics.observe(server_request(**record))
    assert embedding_values(metrics) == {total(record["status"], record["operation"]): 1}


def test_the_queue_and_the_process_are_measured(metrics, queue):
    """Gauges are read when they are asked for; the process has the names of all clients."""
    queue.waiting_runs, queue.seconds = 3, 0.25
    queued = {"embedding_queue_runs": 3, "embedding_queue_seconds": 0.25}
    assert embedding_values(metrics) == queued
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total"} <= set(values(metrics))
