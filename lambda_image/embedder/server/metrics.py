"""The server's Prometheus metrics, at `/metrics`.

Metrics that mean what they mean in Hugging Face's text-embeddings-inference (TEI) have its names,
labels, units and buckets, so that its dashboards work. Read from its source,
github.com/huggingface/text-embeddings-inference at 0d124dc (2026-07): lib.rs, prometheus.rs and
http/server.rs in router/src; infer.rs, queue.rs and tokenization.rs in core/src.

What differs: the durations are those of a request, where TEI has the mean of its inputs, and those
of each text as well; `method` is `batch` for more than one text, and in TEI for a list of one, too;
`te_queue_size` counts runs of the model that wait; `err` is the code of our error.
"""

import re
from functools import partial

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

from embedder.core.errors import OverloadedError
from embedder.server.queue import BatchingSession
from embedder.server.server_request import ServerRequest

#: The library ends the name of each counter with `_total`, which TEI's counters have not.
_TEI_COUNTER = re.compile(rb"^((?:# (?:HELP|TYPE) )?te_\w+)_total\b", re.MULTILINE)
#: TEI's buckets of seconds: 35 from 15 µs up, each half as large again.
_SECONDS = [0.00001 * 1.5**power for power in range(1, 36)]


class Metrics:
    """Counts each request and each run of the model, and reads the queue when it is asked."""

    def __init__(self, queue: BatchingSession) -> None:
        # Without it, each counter has a second time series with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self._requests = counter(
            "embedding_requests_total", "Finished requests.", ["key", "api", "operation", "status"]
        )
        self._tokens = counter(
            "embedding_tokens_total", "Tokens of answered requests.", ["key", "api"]
        )
        self._count = counter("te_request_count", "Requests.", ["method"])
        self._success = counter("te_request_success", "Answered requests.", ["method"])
        self._failure = counter("te_request_failure", "Failed requests.", ["err"])
        self._texts = counter("te_embed_count", "Texts to embed.")
        self._embedded = counter("te_embed_success", "Embedded texts.")
        self._durations = [
            histogram(
                f"te_request{stage}_duration",
                f"Seconds of an answered request: {stage_name}.",
                buckets=_SECONDS,
            )
            for stage, stage_name in (
                ("", "all"),
                ("_tokenization", "tokenization"),
                ("_queue", "waiting for the model"),
                ("_inference", "the model"),
            )
        ]
        self._input_length, self._run_size, self._run_tokens = [
            histogram(name, documentation, buckets=[2.0**power for power in range(powers)])
            for name, documentation, powers in (
                ("te_request_input_length", "Tokens of a text.", 20),
                ("te_batch_next_size", "Texts of a run of the model.", 13),
                ("te_batch_next_tokens", "Tokens of a run of the model, padding included.", 21),
            )
        ]
        for name, documentation, read in (
            ("te_queue_size", "Runs that wait for the model.", lambda: queue.waiting_runs),
            ("embedding_queue_tokens", "Tokens that wait.", lambda: queue.waiting_tokens),
            ("embedding_queue_seconds", "Time that those will take.", lambda: queue.seconds),
        ):
            Gauge(name, documentation, registry=registry).set_function(read)
        # So that a rate of zero is not missing data.
        for method in ("single", "batch"):
            self._count.labels(method)
            self._success.labels(method)
        self._failure.labels(OverloadedError.code)

    def observe(self, request: ServerRequest) -> None:
        """Count a finished request."""
        key, record = request.ticket.key, request.record
        self._requests.labels(key, record.api, record.operation, str(record.status)).inc()
        embeddings = record.embeddings
        tokens = embeddings.tokens if embeddings else ()
        if tokens:
            self._tokens.labels(key, record.api).inc(sum(tokens))
        # TEI counts neither what embeds nothing nor what is refused before its operation is known.
        refused = record.operation == "none" and record.error != OverloadedError.code
        if refused or (embeddings is None and record.error is None):
            return
        # Of a failed request only those are known that came to the queue.
        texts = len(tokens) or request.ticket.texts
        method = "batch" if texts > 1 else "single"
        self._count.labels(method).inc()
        self._texts.inc(texts)
        if embeddings is None or record.error is not None:
            self._failure.labels(record.error).inc()
            return
        self._success.labels(method).inc()
        self._embedded.inc(len(tokens))
        timings = embeddings.timings
        stages = (request.seconds, timings.tokenization, timings.queue, timings.inference)
        for duration, seconds in zip(self._durations, stages, strict=True):
            duration.observe(seconds)
        for length in tokens:
            self._input_length.observe(length)

    def observe_run(self, texts: int, tokens: int) -> None:
        """Count a run of the model; may be called in any thread."""
        self._run_size.observe(texts)
        self._run_tokens.observe(tokens)

    def render(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and its content type."""
        text = _TEI_COUNTER.sub(rb"\1", generate_latest(self._registry))
        return text, CONTENT_TYPE_PLAIN_0_0_4
