"""Lambda's entry for the steps of a job's state machine: `handler(event, context)`.

The model is loaded when the module is imported, once for each execution environment. Each step
writes one line of JSON to the log, and one with the metrics of a shard. No line has a text: an
unexpected error, whose message could quote one, is logged and reported by its class.
"""

import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from batch_embedding.errors import BatchError
from batch_embedding.steps import Steps
from embedder.artifact import load_artifact
from embedder.engine import Engine
from embedder.errors import EmbedderError
from embedder.settings import Settings
from embedder.telemetry import fault

__all__ = ["UnexpectedError", "handle", "handler"]

#: The metrics of a shard: each with its unit, and its name in the step's result.
_METRICS = {
    "Rows": ("Count", "rows"),
    "RejectedRows": ("Count", "rejected"),
    "Tokens": ("Count", "tokens"),
    "ShardDuration": ("Seconds", "seconds"),
}


class UnexpectedError(Exception):
    """A step failed in a way that no message explains. The log has the place in the code."""


def handle(steps: Steps, settings: Settings, event: Mapping[str, Any], context: Any) -> Any:
    """Run one step, and log it.

    Returns:
        The step's result.

    Raises:
        BatchError: The step's error, whose class decides whether Step Functions tries it again.
        EmbedderError: The model's error.
        UnexpectedError: Any other.
    """
    began = time.monotonic()
    line: dict[str, Any] = {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": "INFO",
        "message": "batch",
        "requestId": getattr(context, "aws_request_id", None),
        "environment": settings.environment,
        "step": event.get("step"),
    }
    try:
        result = steps.run(event)
    except (BatchError, EmbedderError) as error:
        _log(line | {"level": "ERROR", "error": type(error).__name__}, began)
        raise
    except Exception as error:
        found = fault(error)
        _log(line | {"level": "ERROR", "error": "UnexpectedError", "fault": found}, began)
        raise UnexpectedError(f"{found['type']} at {found['trace'][-1]}") from None
    _log(line | result, began)
    # A shard that an earlier run has written is not counted again.
    if result.get("written"):
        _write(_metrics(settings, result))
    return result


def _metrics(settings: Settings, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record in Embedded Metric Format, of which CloudWatch makes metrics."""
    definitions = [{"Name": name, "Unit": unit} for name, (unit, _) in _METRICS.items()]
    return {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": settings.metrics_namespace,
                    "Dimensions": [["FunctionName"]],
                    "Metrics": definitions,
                }
            ],
        },
        "FunctionName": settings.function_name,
        **{name: result[key] for name, (_, key) in _METRICS.items()},
    }


def _log(line: Mapping[str, Any], began: float) -> None:
    _write({**line, "durationMs": round(1000 * (time.monotonic() - began), 3)})


def _write(line: Mapping[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE).decode())
    sys.stdout.flush()


def _load(settings: Settings, *, memory_mb: int) -> Steps:
    engine = Engine.load(
        load_artifact(settings.artifact),
        threads=settings.threads,
        max_characters=settings.max_characters,
    )
    return Steps(engine, memory_mb=memory_mb)


_settings = Settings.from_env(os.environ)
# Lambda sets it to the function's memory.
_steps = _load(_settings, memory_mb=int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "0")))


def handler(event: Mapping[str, Any], context: Any) -> Any:
    """Run a step of a job."""
    return handle(_steps, _settings, event, context)
