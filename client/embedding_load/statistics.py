"""Percentiles and counts of outcomes. Pure."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedding_load.outcomes import ERRORS, WAITED, Kind, Outcome

__all__ = ["PERCENTILES", "Generator", "Second", "Spread", "by_second", "generator", "spread"]

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
#: A request that was taken later than this after it was due is late. A sleep ends up to about a
#: millisecond late, and other work of a busy machine takes some more.
_LATE_SECONDS = 0.01
#: A generator that is late for more than this share of requests fell behind. Fewer are late when
#: the machine has other work for a moment.
_BEHIND_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of some times, in seconds."""

    count: int
    mean: float
    #: By the names of `PERCENTILES`, and `max`. Exact: each is one of the times.
    at: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """Whether the load came as it was planned."""

    #: Requests that this process took too late from the plan.
    late: int
    #: The delays of all requests from due to taken.
    delay: Spread | None
    #: Requests that waited for a connection, because all were in use.
    waited: int
    #: Whether too many were late: this process is the bottleneck, and not the endpoint.
    fell_behind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """A stretch of a test."""

    begin: float
    seconds: float
    #: Requests that were due here, those of them that met a cold start, and the latencies of those
    #: that waited for a vector; None without one.
    due: int
    cold_starts: int
    latency: Spread | None
    #: Requests that ended here.
    answered: int
    throttled: int
    errors: int


def spread(times: Sequence[float] | npt.NDArray[np.float64]) -> Spread | None:
    """Return the distribution of times, or None without one.

    A percentile p is the least time that is not exceeded by a share p of all.
    """
    ordered = np.sort(np.asarray(times, dtype=np.float64))
    count = len(ordered)
    if not count:
        return None
    at = {
        # Rounded first: 0.99 * 100 is not 99 in floating point.
        name: float(ordered[max(0, math.ceil(round(share * count, 9)) - 1)])
        for name, share in PERCENTILES.items()
    }
    return Spread(count, float(ordered.mean()), {**at, "max": float(ordered[-1])})


def generator(outcomes: Sequence[Outcome]) -> Generator:
    """Return how well the plan was kept."""
    delays = [outcome.taken - outcome.due for outcome in outcomes]
    late = sum(delay > _LATE_SECONDS for delay in delays)
    return Generator(
        late=late,
        delay=spread(delays),
        waited=sum(outcome.waited for outcome in outcomes),
        fell_behind=late > _BEHIND_SHARE * len(delays),
    )


def by_second(outcomes: Sequence[Outcome], *, seconds: float, parts: int) -> list[Second]:
    """Divide a test into stretches of whole seconds.

    Args:
        outcomes: The requests.
        seconds: The length of the test. Requests that ended later make it longer.
        parts: The most stretches.
    """
    last = max([seconds, *(outcome.ended for outcome in outcomes)])
    width = float(max(1, math.ceil(last / parts)))
    count = max(1, math.ceil(last / width))
    due: list[list[Outcome]] = [[] for _ in range(count)]
    ended: list[Counter[Kind]] = [Counter() for _ in range(count)]
    for outcome in outcomes:
        due[min(count - 1, int(outcome.due / width))].append(outcome)
        ended[min(count - 1, int(outcome.ended / width))][outcome.kind] += 1
    return [
        Second(
            begin=place * width,
            seconds=width,
            due=len(began),
            cold_starts=sum(outcome.cold for outcome in began),
            latency=spread([outcome.latency for outcome in began if outcome.kind in WAITED]),
            answered=kinds[Kind.OK],
            throttled=kinds[Kind.THROTTLED],
            errors=sum(kinds[kind] for kind in ERRORS),
        )
        for place, (began, kinds) in enumerate(zip(due, ended, strict=True))
    ]
