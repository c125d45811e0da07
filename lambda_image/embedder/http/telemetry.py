"""The log line and the metrics record of each request, both JSON on stdout.

Lambda's JSON logging takes lines that are JSON objects as they are; CloudWatch makes metrics of the
record with `_aws` in it (Embedded Metric Format,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).
Texts, vectors and error messages are never written: an error is logged as its kind, its field and
its place in the code.
"""

import sys
import time
from typing import Any

import orjson

from embedder.core.embedding_request import Embeddings
from embedder.core.settings import EmbedderSettings

#: EMF takes at most a hundred values of one metric in a record.
_MOST_VALUES = 100
_COUNTS = ("Requests", "ColdStarts", "Texts", "Tokens", "BatchSize", "CacheHits")
#: The metrics by function, and by API and status. `scripts/cost` counts them.
UNITS = {
    **dict.fromkeys(_COUNTS, "Count"),
    "TokenizationTime": "Milliseconds",
    "InferenceTime": "Milliseconds",
    "PaddingWaste": "Percent",
}
#: Metrics by which a release judges the new version alone. No other metric has the version as a
#: dimension, for each would be billed once more for every version.
VERSION_UNITS = {"Requests": "Count", "ServerErrors": "Count"}
_DEFINITIONS = {
    name: {"Name": name, "Unit": unit} for name, unit in {**UNITS, **VERSION_UNITS}.items()
}
#: Metrics of a request that embedded, and the fields of its line that they have.
_LINE_FIELDS = {
    "Texts": "texts",
    "Tokens": "tokens",
    "TokenizationTime": "tokenizationMs",
    "InferenceTime": "inferenceMs",
    "CacheHits": "cacheHits",
}


class RequestRecord:
    """The facts about one request that are logged; filled in on its way through the router."""

    api = "none"
    operation = "none"
    status = 0
    request_bytes = 0
    response_bytes = 0
    embeddings: Embeddings | None = None
    #: The time that the search index took, if it was searched.
    search_seconds: float | None = None
    #: The code and the field of the error that was answered.
    error: str | None = None
    field: str | None = None
    #: Class and place of an unexpected exception, innermost call last.
    fault: dict[str, Any] | None = None

    def __init__(self, request_id: str) -> None:
        self.id = request_id
        #: `time.perf_counter()` at its beginning.
        self.started = time.perf_counter()


class Telemetry:
    """Writes the records of one execution environment."""

    def __init__(self, settings: EmbedderSettings) -> None:
        self._settings = settings
        #: True until the first request after a cold start or a restore is recorded.
        self.cold = settings.initialization != "provisioned-concurrency"

    def write(self, record: RequestRecord) -> None:
        """Write both lines, in one write."""
        cold, self.cold = self.cold, False
        ended = time.time()
        line = self.line(record, ended, cold)
        lines = _dumps(line) + _dumps(self._metrics(record, ended, line))
        sys.stdout.write(lines.decode())
        sys.stdout.flush()

    def line(self, record: RequestRecord, now: float, cold: bool) -> dict[str, Any]:
        """Return the log line of a request that ended at `now`, in seconds since 1970."""
        status, seconds = record.status, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        line: dict[str, Any] = {
            "timestamp": f"{seconds}.{int(now % 1 * 1000):03}Z",
            "level": "ERROR" if status >= 500 else "WARN" if status >= 400 else "INFO",
            "message": "request",
            "requestId": record.id,
            "environment": self._settings.environment,
            "api": record.api,
            "operation": record.operation,
            "status": status,
            "durationMs": _milliseconds(time.perf_counter() - record.started),
            "coldStart": cold,
            "requestBytes": record.request_bytes,
            "responseBytes": record.response_bytes,
        }
        if (embeddings := record.embeddings) is not None:
            line |= {
                "vectorSpace": embeddings.vector_space,
                "texts": len(embeddings.tokens),
                "tokens": sum(embeddings.tokens),
                "tokenizationMs": _milliseconds(embeddings.timings.tokenization),
                "inferenceMs": _milliseconds(embeddings.timings.inference),
                "runs": len(embeddings.runs),
                "cacheHits": embeddings.cache_hits,
                "repeats": embeddings.repeats,
                # The part of the computed tokens that was padding, in percent.
                "paddingWaste": round(
                    100 * embeddings.padding_tokens / max(1, embeddings.computed_tokens), 2
                ),
            }
        if record.search_seconds is not None:
            line["searchMs"] = _milliseconds(record.search_seconds)
        if record.error is not None:
            line["error"] = record.error
            line["field"] = record.field
        if record.fault is not None:
            line["fault"] = record.fault
        return line

    def _metrics(self, record: RequestRecord, now: float, line: dict[str, Any]) -> dict[str, Any]:
        settings = self._settings
        values: dict[str, Any] = {"Requests": 1, "ColdStarts": int(line["coldStart"])}
        if record.embeddings is not None:
            values |= {metric: line[field] for metric, field in _LINE_FIELDS.items()}
            # Without a run there is no batch and no padding, so neither metric is written.
            if record.embeddings.runs:
                values["BatchSize"] = list(record.embeddings.runs[:_MOST_VALUES])
                values["PaddingWaste"] = line["paddingWaste"]
        return {
            "_aws": {
                "Timestamp": int(now * 1000),
                "CloudWatchMetrics": [
                    {
                        "Namespace": settings.metrics_namespace,
                        "Dimensions": [["FunctionName"], ["FunctionName", "Api", "Status"]],
                        "Metrics": [_DEFINITIONS[name] for name in values],
                    },
                    {
                        "Namespace": settings.metrics_namespace,
                        "Dimensions": [["FunctionName", "Version"]],
                        "Metrics": [_DEFINITIONS[name] for name in VERSION_UNITS],
                    },
                ],
            },
            "FunctionName": settings.function_name,
            "Version": settings.function_version,
            "Api": record.api,
            "Status": str(record.status),
            "requestId": record.id,
            # Some APIs answer a fault of the server with a status below 500.
            "ServerErrors": int(record.fault is not None),
            **values,
        }


def _dumps(line: dict[str, Any]) -> bytes:
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
