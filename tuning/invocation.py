"""What an invocation returns: Lambda's own report of its times, and the function's answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from local_function_url.events import to_event
from local_function_url.signature import Caller
from local_function_url.sigv4_parsing import SignedRequest
from tuning.errors import TuneError

__all__ = ["Report", "http_event", "parse_answer", "parse_report"]

_CALLER = Caller(access_key="tune", session_token=None)


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics of the record `platform.report`."""

    #: Milliseconds of the invocation, without the initialization.
    milliseconds: float
    #: Billed milliseconds; those of the initialization included, if there was one.
    billed: float
    #: Milliseconds of the initialization; None in an environment that was initialized before.
    init: float | None
    memory_mb: int
    #: The highest memory of the environment until now.
    peak_mb: int


def http_event(method: str, path: str, body: object = None) -> bytes:
    """Return the event that a Function URL would send for a request with a JSON body."""
    content = b"" if body is None else json.dumps(body).encode()
    request = SignedRequest(
        method=method,
        target=path,
        headers={"content-type": "application/json", "content-length": str(len(content))},
        body=content,
    )
    return to_event(request, caller=_CALLER, source_ip="127.0.0.1")


def parse_report(log: str) -> Report:
    """Read the report from the end of an invocation's log, in JSON format.

    https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html#platform-report

    Args:
        log: The last lines; the first may be cut.

    Raises:
        TuneError: There is no report.
    """
    for line in reversed(log.splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("type") == "platform.report":
            metrics = record["record"]["metrics"]
            return Report(
                milliseconds=metrics["durationMs"],
                billed=metrics["billedDurationMs"],
                init=metrics.get("initDurationMs"),
                memory_mb=metrics["memorySizeMB"],
                peak_mb=metrics["maxMemoryUsedMB"],
            )
    raise TuneError(
        "Lambda returned no report of the invocation (LogType=Tail, the record platform.report)"
    )


def parse_answer(payload: bytes, *, path: str) -> Mapping[str, Any]:
    """Return the JSON body of the function's answer.

    Raises:
        TuneError: The function crashed, or answered another status than 200.
    """
    result = json.loads(payload)
    if "statusCode" not in result:
        raise TuneError(
            f"the function failed on {path}: {result.get('errorType', 'unknown error')}: "
            f"{result.get('errorMessage', '')}"
        )
    body: Mapping[str, Any] = json.loads(result["body"])
    if result["statusCode"] != 200:
        raise TuneError(f"the function answered {path} with {result['statusCode']}: {dict(body)}")
    return body
