"""Cold starts of any arrivals by simulation: one pass over sorted events.

Lambda runs one request in an environment at a time. Which idle environment it takes, and when it
ends one, is not documented. Two rules bound it: the one used last (most cold starts, since the
others stay idle), and the one that is idle longest (fewest).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from operations.cost.traffic import MONTH_SECONDS, Load

__all__ = ["Sample", "least_recent", "most_recent", "sample"]

Times = npt.NDArray[np.float64]
#: Bursts of a named shape begin with each hour.
_HOUR = 3600.0
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Requests by rising arrival, in seconds; both arrays are float64 of one length."""

    arrivals: Times
    durations: Times


def sample(
    loads: Sequence[Load],
    *,
    requests: float,
    seconds: float,
    most: int,
    seed: int = 0,
) -> Sample:
    """Draw Poisson arrivals of whole days, and exponential durations.

    A day of more requests than wanted is drawn from its beginning on, at least for an hour.

    Args:
        loads: The traffic's loads. Those of one hour follow each other within that hour; those
            without an hour, within each hour.
        requests: Requests a month.
        seconds: The mean duration.
        most: About the number of requests; a month's at the most.
        seed: The seed; one seed gives one sample.
    """
    random = np.random.default_rng(seed)
    mean = requests / MONTH_SECONDS
    days = max(1, min(30, math.ceil(most / max(mean * _DAY, 1e-9))))
    parts: list[Times] = []
    for begin, end, multiple in _day(loads):
        if begin % _HOUR == 0 and sum(map(len, parts)) > most * days:
            break
        length = end - begin
        for day in range(days):
            count = random.poisson(mean * multiple * length)
            parts.append(day * _DAY + begin + random.uniform(0, length, count))
    arrivals = np.sort(np.concatenate(parts))
    return Sample(arrivals, random.exponential(seconds, len(arrivals)))


def most_recent(requests: Sample, timeout: float) -> int:
    """Count cold starts if the environment that was used last is taken.

    The number in flight falls from k to k - 1 when an environment becomes idle, and the next rise
    from k - 1 to k takes the same one. So the events of each level alternate, and the time between
    a fall and the next rise is the idle time.
    """
    count = len(requests.arrivals)
    times = np.concatenate([requests.arrivals, requests.arrivals + requests.durations])
    steps = np.concatenate([np.ones(count, np.int64), -np.ones(count, np.int64)])
    # An environment that ends a request at the moment of an arrival can take it.
    order = np.lexsort((steps, times))
    times, steps = times[order], steps[order]
    in_flight = np.cumsum(steps)
    level = np.where(steps > 0, in_flight, in_flight + 1)
    by_level = np.argsort(level, kind="stable")
    level, times, steps = level[by_level], times[by_level], steps[by_level]
    rises = np.flatnonzero(steps > 0)
    before = rises - 1
    first = (rises == 0) | (level[rises] != level[before])
    idle = np.where(first, np.inf, times[rises] - times[before])
    return int(np.count_nonzero(idle > timeout))


def least_recent(requests: Sample, timeout: float) -> int:
    """Count cold starts if the environment that is idle longest, and has not ended, is taken.

    The idle environments are a queue in the order in which they became idle, so one position in
    the sorted ends of requests is all that must be kept.
    """
    ends = np.sort(requests.arrivals + requests.durations)
    ended = np.searchsorted(ends, requests.arrivals, side="right").tolist()
    expired = np.searchsorted(ends, requests.arrivals - timeout, side="left").tolist()
    head = cold = 0
    for available, dead in zip(ended, expired, strict=True):
        head = max(head, dead)
        if head < available:
            head += 1
        else:
            cold += 1
    return cold


def _day(loads: Sequence[Load]) -> Iterator[tuple[float, float, float]]:
    """Yield begin, end and multiple of each stretch of a day with one rate."""
    for hour in range(24):
        here = [load for load in loads if load.hour in {None, hour}]
        total = sum(load.share for load in here)
        begin = hour * _HOUR
        for load in here:
            end = begin + load.share / total * _HOUR
            yield begin, end, load.multiple
            begin = end
