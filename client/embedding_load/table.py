"""The report as text."""

from collections.abc import Iterator
from textwrap import wrap

from embedding_costs.forecast import ColdStarts
from embedding_costs.numbers import dollars, number, percent
from embedding_load.outcomes import Kind
from embedding_load.sender import End
from embedding_load.statistics import PERCENTILES, Spread
from embedding_load.summary import Summary

__all__ = ["as_table", "usd"]

_WIDTH, _COLUMNS = 34, 100
_ENDS = {
    End.TIME: "the time was over",
    End.REQUESTS: "the limit of requests was reached",
    End.BUDGET: "the next request could have exceeded the budget",
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


def as_table(result: Summary) -> str:
    """Return the table."""
    return "\n".join(_lines(result)) + "\n"


def usd(value: float) -> str:
    """Format US dollars; small amounts with two digits that count."""
    return f"${dollars(value)}" if value >= 1 or not value else f"${value:.2g}"


def _lines(result: Summary) -> Iterator[str]:
    yield f"{result.endpoint.model} at {result.endpoint.url}"
    low, high = result.plan.range
    asked = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    yield (
        f"{result.plan.rate:g} requests a second on average, {result.plan.shape}, {asked} tokens; "
        f"ended after {result.seconds:.1f} s: {_ENDS[result.end]}"
    )
    yield ""
    yield f"{'requests sent':{_WIDTH}}{result.sent:>10,}"
    for kind, label in _KINDS.items():
        if kind is Kind.OK or result.kinds[kind]:
            yield f"  {label:{_WIDTH - 2}}{result.kinds[kind]:>10,}"
    if result.missed:
        yield f"{'due, but not sent in time':{_WIDTH}}{result.missed:>10,}"
    if result.seconds:
        rate = result.kinds[Kind.OK] / result.seconds
        yield f"{'answers a second':{_WIDTH}}{rate:>10,.1f}"
    if result.asked:
        yield f"{'tokens asked for, and counted':{_WIDTH}}{result.asked:>10,}{result.counted:>10,}"
    more = "  and one before the test" if result.endpoint.cold else ""
    yield f"{'cold starts':{_WIDTH}}{result.cold_starts:>10,}{more}"
    yield ""
    yield from _times(result)
    yield from _generator(result)
    if result.forecast is not None and result.cost is not None:
        yield ""
        yield from _costs(result)


def _times(result: Summary) -> Iterator[str]:
    names = [*PERCENTILES, "max"]
    yield f"{'milliseconds':{_WIDTH}}" + "".join(f"{name:>10}" for name in names)
    for label, times in (
        ("latency, from when it was due", result.latency),
        ("service time, from when it was sent", result.service),
        ("cold starts", result.cold),
    ):
        if times is not None:
            yield f"{label:{_WIDTH}}" + _row(times)


def _row(times: Spread) -> str:
    return "".join(f"{1000 * value:>10,.1f}" for value in times.at.values())


def _generator(result: Summary) -> Iterator[str]:
    found = result.generator
    if found.late and found.delay is not None:
        late = (
            f"{found.late:,} requests were started more than 10 ms late "
            f"(p99 {1000 * found.delay.at['p99']:,.0f} ms)"
        )
        yield ""
        yield from wrap(
            f"The generator fell behind: {late}. This process was too busy to send them, and the "
            "latencies contain the delay. Lower --rate, or run several tests at the same time with "
            "different --seed."
            if result.fell_behind
            else f"{late}, because this machine was busy. Their latencies contain the delay.",
            _COLUMNS,
        )
    if found.waited:
        yield ""
        yield from wrap(
            f"{found.waited:,} requests waited for one of the {result.settings.connections:,} "
            "connections, and their latencies contain the wait. Raise --connections if this is not "
            "what you test.",
            _COLUMNS,
        )


def _costs(result: Summary) -> Iterator[str]:
    found, cost = result.forecast, result.cost
    assert found is not None  # noqa: S101  (the caller has checked both)
    assert cost is not None  # noqa: S101
    service = f"{1000 * result.service.mean:,.1f}" if result.service else "-"
    cold = "none" if found.cold_starts is None else f"{found.cold_starts:,}"
    yield f"{'':{_WIDTH}}{'forecast':>12}{'test':>12}"
    yield f"{'US dollars':{_WIDTH}}{usd(found.usd):>12}{usd(cost.estimate):>12}"
    yield f"{'  at most':{_WIDTH}}{'':>12}{usd(cost.bound):>12}"
    yield f"{'milliseconds billed, and waited':{_WIDTH}}{1000 * found.seconds:>12,.1f}{service:>12}"
    yield f"{'cold starts':{_WIDTH}}{cold:>12}{result.cold_starts:>12,}"
    yield ""
    yield "The first line is the cost command's billed duration; at most: all the time waited."
    yield from wrap(f"Function: {result.basis}", _COLUMNS)
    month = found.month
    yield from wrap(
        f"A month at this rate, by the cost command: {number(month.requests)} requests, "
        f"{usd(month.usd)} with logs{_share(month.cold_starts)}.",
        _COLUMNS,
    )


def _share(cold: ColdStarts | None) -> str:
    if cold is None:
        return ""
    lowest, highest = percent(cold.lowest), percent(cold.highest)
    band = highest if lowest == highest else f"{lowest} to {highest}"
    return f", cold starts {band} of requests"
