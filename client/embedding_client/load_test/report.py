"""The report of a load test: one dictionary for programs, and the table that is printed from it."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from embedding_client.load_test.sender import End, Kind, Outcome

__all__ = ["ERRORS", "as_report", "as_table", "percentiles"]

#: A throttled request is a result of the test, and an unanswered one its end; these are errors.
ERRORS = (Kind.REFUSED, Kind.FAILED, Kind.TIMEOUT, Kind.UNREACHABLE)
#: The requests that waited for a vector all the time. A refusal comes fast and would make the
#: latencies look better.
_WAITED = (Kind.OK, Kind.TIMEOUT, Kind.UNANSWERED, Kind.UNSENT)
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
#: A request that was taken later than this after it was due is late. A sleep ends up to about a
#: millisecond late, and other work of a busy machine takes some more.
_LATE_SECONDS = 0.01
#: A generator that is late for more than this share of requests, or does not come to more than that
#: share, fell behind. Fewer are late when the machine has other work for a moment.
_LATE_SHARE, _MISSED_SHARE = 0.1, 0.01
_WIDTH = 36
_ENDS = {
    End.TIME: "the time was over",
    End.REQUESTS: "the limit of requests was reached",
    End.INTERRUPTED: "it was stopped",
}
_KINDS = {
    Kind.OK: "answered",
    Kind.THROTTLED: "throttled (429)",
    Kind.REFUSED: "refused (4xx)",
    Kind.FAILED: "failed (5xx, or no vectors)",
    Kind.TIMEOUT: "timed out",
    Kind.UNREACHABLE: "no connection",
    Kind.UNANSWERED: "without an answer at the end",
    Kind.UNSENT: "not sent: no connection was free",
}


def percentiles(seconds: Sequence[float]) -> dict[str, float] | None:
    """Return the mean, the percentiles and the maximum of times in milliseconds; None without one.

    A percentile p is the least time that is not exceeded by a share p of all: it is exact, and one
    of the times.
    """
    ordered = 1000 * np.sort(np.asarray(seconds, dtype=np.float64))
    count = len(ordered)
    if not count:
        return None
    at = {
        # Rounded first: 0.99 * 100 is not 99 in floating point.
        name: ordered[max(0, math.ceil(round(share * count, 9)) - 1)]
        for name, share in _PERCENTILES.items()
    }
    found = {"mean": ordered.mean(), **at, "max": ordered[-1]}
    return {name: round(float(value), 3) for name, value in found.items()}


def as_report(
    outcomes: Sequence[Outcome], *, end: End, planned: int, about: dict[str, Any]
) -> dict[str, Any]:
    """Return the report.

    Args:
        outcomes: The requests that ended.
        end: The reason why the test ended.
        planned: The number of requests in the plan.
        about: The endpoint and the options, which open the report.
    """
    kinds = Counter(outcome.kind for outcome in outcomes)
    statuses = Counter(outcome.status for outcome in outcomes if outcome.status)
    delays = [outcome.taken - outcome.due for outcome in outcomes]
    late = sum(delay > _LATE_SECONDS for delay in delays)
    missed = planned - len(outcomes) if end is End.TIME else 0
    cold = [outcome.ended - outcome.due for outcome in outcomes if outcome.cold]
    return {
        **about,
        "end": end.value,
        "seconds": max((outcome.ended for outcome in outcomes), default=0.0),
        "requests": {
            "sent": len(outcomes) - kinds[Kind.UNSENT],
            **{kind.value: kinds[kind] for kind in Kind},
            "not_reached": missed,
        },
        "errors": sum(kinds[kind] for kind in ERRORS),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "tokens": sum(outcome.tokens for outcome in outcomes),
        # From when a request was due, and from when it was sent.
        "latency_ms": percentiles([o.ended - o.due for o in outcomes if o.kind in _WAITED]),
        "service_ms": percentiles([o.ended - o.sent for o in outcomes if o.kind is Kind.OK]),
        "cold_starts": {"requests": len(cold), "latency_ms": percentiles(cold)},
        "generator": {
            "fell_behind": late > _LATE_SHARE * len(delays) or missed > _MISSED_SHARE * planned,
            "late": late,
            "waited_for_connection": sum(outcome.waited for outcome in outcomes),
            "delay_ms": percentiles(delays),
        },
    }


def as_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    plan, requests = report["plan"], report["requests"]
    low, high = plan["tokens"]
    tokens = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    yield f"{report['endpoint']['model']} at {report['endpoint']['url']}"
    yield f"{plan['rate']:g} requests a second on average, {tokens} tokens a text"
    yield f"ended after {report['seconds']:.1f} s: {_ENDS[End(report['end'])]}"
    yield ""
    yield f"{'requests sent':{_WIDTH}}{requests['sent']:>10,}"
    for kind, label in _KINDS.items():
        if kind is Kind.OK or requests[kind]:
            yield f"  {label:{_WIDTH - 2}}{requests[kind]:>10,}"
    if requests["not_reached"]:
        yield f"{'due, but not sent in time':{_WIDTH}}{requests['not_reached']:>10,}"
    if report["seconds"]:
        yield f"{'answers a second':{_WIDTH}}{requests['ok'] / report['seconds']:>10,.1f}"
    more = "  and one before the test" if report["endpoint"]["cold"] else ""
    yield f"{'cold starts':{_WIDTH}}{report['cold_starts']['requests']:>10,}{more}"
    yield ""
    names = [*_PERCENTILES, "max"]
    yield f"{'milliseconds':{_WIDTH}}" + "".join(f"{name:>8}" for name in names)
    for label, times in (
        ("latency, from when it was due", report["latency_ms"]),
        ("service time, from when it was sent", report["service_ms"]),
        ("cold starts", report["cold_starts"]["latency_ms"]),
    ):
        if times:
            yield f"{label:{_WIDTH}}" + "".join(f"{times[name]:>8,.0f}" for name in names)
    yield from _notes(report)


def _notes(report: dict[str, Any]) -> Iterator[str]:
    found = report["generator"]
    if found["late"]:
        yield ""
        yield (
            f"{found['late']:,} requests were started over {1000 * _LATE_SECONDS:.0f} ms late "
            f"(p99 {found['delay_ms']['p99']:,.0f} ms): this machine was"
        )
        yield "busy. Their latencies contain the delay."
    if found["fell_behind"]:
        yield "The generator fell behind, so the results are of this machine, not of the endpoint."
        yield "Lower --rate, or run several tests at the same time with different --seed."
    if found["waited_for_connection"]:
        yield ""
        yield (
            f"{found['waited_for_connection']:,} requests waited for one of the "
            f"{report['plan']['connections']:,} connections, and their"
        )
        yield "latencies contain the wait. Raise --connections if this is not what you test."
