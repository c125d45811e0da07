"""A warm call, split into its parts, and the last logged cold start."""

import json
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from embedding_client.doctor.facts import Facts, NoAnswer
from embedding_client.doctor.findings import Finding, SkippedError, ok, warning
from embedding_client.doctor.words import ago, milliseconds

__all__ = [
    "ColdStart",
    "Warm",
    "check_cold",
    "check_warm",
    "cold_start_of",
    "judge_cold",
    "judge_warm",
]

_CALLS = 5
#: How far back to look, one after the other: a log is read from its start.
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))
#: On demand, on restoring a snapshot, or of provisioned concurrency:
#: https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html
_PATTERN = (
    '{ ($.type = "platform.report" && $.record.metrics.initDurationMs > 0) || '
    '($.type = "platform.report" && $.record.metrics.restoreDurationMs > 0) || '
    '($.type = "platform.initReport" && $.record.initializationType = "provisioned-concurrency") }'
)
#: A page has up to 10,000 events, or those of some seconds of search.
_MOST_PAGES = 30
#: After this Lambda restarts an initialization while the caller waits.
_LONGEST_MS = 10_000


class Warm(NamedTuple):
    """One warm call in milliseconds; those of the endpoint are whole numbers."""

    total: float
    endpoint: int
    tokenizer: int
    model: int

    @property
    def network(self) -> float:
        """What the endpoint did not use: the network, and Lambda itself."""
        return max(0.0, self.total - self.endpoint)


class ColdStart(NamedTuple):
    """A cold start in the log."""

    kind: str
    milliseconds: float
    at: datetime


def check_warm(facts: Facts) -> Finding:
    """Call a few times, with texts that no cache has."""
    facts.answered()
    moment = facts.outside.now().isoformat()
    calls = []
    for number in range(_CALLS):
        body = json.dumps({"inputs": f"warm call {number} at {moment}"}).encode()
        reply = facts.send("POST", "/embed", body)
        if isinstance(reply, NoAnswer) or reply.status != 200:
            raise SkippedError("the endpoint does not answer POST /embed")
        times = (
            int(reply.headers[f"x-{name}-time"]) for name in ("total", "tokenization", "inference")
        )
        calls.append(Warm(reply.milliseconds, *times))
    return judge_warm(calls)


def judge_warm(calls: Sequence[Warm]) -> Finding:
    """Describe the median call."""
    total = statistics.median_low([call.total for call in calls])
    call = next(call for call in calls if call.total == total)
    parts = ", ".join(
        f"{name} {milliseconds(part)}"
        for name, part in (
            ("tokenizer", call.tokenizer),
            ("model", call.model),
            ("network and Lambda", call.network),
        )
    )
    return ok(
        f"{total:,.0f} ms: {parts} (median of {len(calls)})",
        milliseconds=round(total, 1),
        tokenizer=call.tokenizer,
        model=call.model,
        network=round(call.network, 1),
    )


def check_cold(facts: Facts) -> Finding:
    """Search the log for the last cold start; none can be forced from outside."""
    group = facts.function().get("LoggingConfig", {}).get("LogGroup")
    if group is None:
        group = f"/aws/lambda/{facts.alias().function}"
    now = facts.outside.now()
    for window in _WINDOWS:
        pages = facts.aws.iterate(
            "logs",
            "filter_log_events",
            token="nextToken",  # noqa: S106 - a field
            logGroupName=group,
            filterPattern=_PATTERN,
            startTime=int((now - window).timestamp() * 1000),
        )
        events: list[dict[str, Any]] = []
        for number, page in enumerate(pages):
            events += page.get("events", [])
            if number == _MOST_PAGES:
                raise SkippedError(
                    "the log is too long to search: see the graph Init duration of the dashboard"
                )
        if events:
            last = max(events, key=lambda event: int(event["timestamp"]))
            return judge_cold(cold_start_of(last), now)
    return judge_cold(None, now)


def cold_start_of(event: dict[str, Any]) -> ColdStart:
    """Return the cold start of a platform record in a log."""
    record = json.loads(event["message"])["record"]
    metrics = record["metrics"]
    if "initializationType" in record:
        kind, took = "initialization of provisioned concurrency", metrics["durationMs"]
    elif "restoreDurationMs" in metrics:
        kind, took = "restore of a snapshot", metrics["restoreDurationMs"]
    else:
        kind, took = "initialization", metrics["initDurationMs"]
    return ColdStart(kind, float(took), datetime.fromtimestamp(event["timestamp"] / 1000, UTC))


def judge_cold(start: ColdStart | None, now: datetime) -> Finding:
    """Judge how long the last cold start took."""
    if start is None:
        return ok(f"none logged in {_WINDOWS[-1].days} days")
    found = f"{start.kind} of {start.milliseconds:,.0f} ms, {ago(now - start.at)}"
    if start.milliseconds >= _LONGEST_MS:
        return warning(found, "docs/runbook.md#initdurationmax", milliseconds=start.milliseconds)
    return ok(found, milliseconds=start.milliseconds, at=start.at.isoformat())
