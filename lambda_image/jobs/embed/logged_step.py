"""Runs a step of a state machine in a Lambda function, with its log and its metrics.

Each step writes one line of JSON to the log, and one with the metrics of an item. No line has a
text: an unexpected error, whose message could quote one, is logged and reported by its class.
"""

import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from embedder.core.errors import EmbedderError
from embedder.core.settings import Settings
from embedder.http.telemetry import fault
from jobs.embed.errors import BatchError

__all__ = ["Step", "UnexpectedError", "run_logged", "run_step"]

#: Gets an event and returns values for JSON.
Step = Callable[[Mapping[str, Any]], dict[str, Any]]


class UnexpectedError(Exception):
    """A step failed in a way that no message explains. The log has the place in the code."""


def run_step(steps: Mapping[str, Step], event: Mapping[str, Any]) -> dict[str, Any]:
    """Run the step that an event names.

    Raises:
        BatchError: If the event names none of the steps, or the step fails.
    """
    step = steps.get(event.get("step", ""))
    if step is None:
        raise BatchError(f"step must be one of {', '.join(steps)}; found {event.get('step')!r}.")
    return step(event)


def run_logged(
    run: Step,
    event: Mapping[str, Any],
    context: Any,
    *,
    settings: Settings,
    message: str,
    metrics: Mapping[str, tuple[str, str]],
) -> dict[str, Any]:
    """Run one step, and log it.

    Args:
        run: Runs the step that the event names.
        event: The event.
        context: Lambda's context of the invocation.
        settings: The environment's name and the metrics' namespace.
        message: The message of the log's line.
        metrics: Each metric with its unit, and its name in the step's result. They are written if
            the result says that this run has `written` something.

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
        "message": message,
        "requestId": getattr(context, "aws_request_id", None),
        "environment": settings.environment,
        "step": event.get("step"),
    }
    try:
        result = run(event)
    except (BatchError, EmbedderError) as error:
        _log(line | {"level": "ERROR", "error": type(error).__name__}, began)
        raise
    except Exception as error:
        found = fault(error)
        _log(line | {"level": "ERROR", "error": "UnexpectedError", "fault": found}, began)
        raise UnexpectedError(f"{found['type']} at {found['trace'][-1]}") from None
    _log(line | result, began)
    # What an earlier run has written is not counted again.
    if result.get("written"):
        _write(_record(settings, result, metrics))
    return result


def _record(
    settings: Settings, result: Mapping[str, Any], metrics: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """Return a record in Embedded Metric Format, of which CloudWatch makes metrics."""
    definitions = [{"Name": name, "Unit": unit} for name, (unit, _) in metrics.items()]
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
        **{name: result[key] for name, (_, key) in metrics.items()},
    }


def _log(line: Mapping[str, Any], began: float) -> None:
    _write({**line, "durationMs": round(1000 * (time.monotonic() - began), 3)})


def _write(line: Mapping[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE).decode())
    sys.stdout.flush()
