"""The server's Prometheus metrics, at `/metrics`."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from embedder.server.queue import BatchingSession
from embedder.server.server_request import ServerRequest

#: Buckets of seconds, from 1 ms to the default of `--timeout`.
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30)
#: The parts of a request's duration, as labels; `request` is all of it.
_STAGES = ("request", "tokenization", "queue", "inference")


class Metrics:
    """Counts requests, and reads the queue when it is asked."""

    def __init__(self, queue: BatchingSession) -> None:
        # Without it, each counter has a second time series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "embedding_requests_total",
            "Finished requests.",
            ["key", "api", "operation", "status"],
            registry=registry,
        )
        self._tokens = Counter(
            "embedding_tokens_total",
            "Tokens of answered requests.",
            ["key", "api"],
            registry=registry,
        )
        durations = Histogram(
            "embedding_duration_seconds",
            "Seconds of an answered request that embeds, and of its stages.",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._durations = [durations.labels(stage) for stage in _STAGES]
        for name, documentation, read in (
            ("embedding_queue_runs", "Runs that wait for the model.", lambda: queue.waiting_runs),
            ("embedding_queue_seconds", "Time that those will take.", lambda: queue.seconds),
        ):
            Gauge(name, documentation, registry=registry).set_function(read)

    def observe(self, request: ServerRequest) -> None:
        """Count a finished request."""
        key, record = request.ticket.key, request.record
        self._requests.labels(key, record.api, record.operation, str(record.status)).inc()
        embeddings = record.embeddings
        if embeddings is None or record.error is not None:
            return
        self._tokens.labels(key, record.api).inc(sum(embeddings.tokens))
        timings = embeddings.timings
        stages = (request.seconds, timings.tokenization, timings.queue, timings.inference)
        for duration, seconds in zip(self._durations, stages, strict=True):
            duration.observe(seconds)

    def render(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4
