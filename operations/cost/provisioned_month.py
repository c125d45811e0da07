"""Provisioned concurrency through a month of traffic, within an environment's bounds."""

import math
from collections import Counter
from collections.abc import Iterator

from embedding_kit.scheduled_bounds import HourBounds
from operations.cost.capacity import busy_beyond
from operations.cost.traffic import Load, Traffic

__all__ = ["provisioned_month"]


def provisioned_month(
    traffic: Traffic,
    seconds: float,
    *,
    bounds: tuple[HourBounds, ...],
    target_utilization: float,
) -> tuple[float, float]:
    """Return the average provisioned concurrency, and the share of requests beyond it.

    Autoscaling aims at the target within the bounds. A request that takes less than a tenth of a
    second cannot use an environment fully, because AWS serves it 10 requests a second.

    Args:
        traffic: The traffic.
        seconds: Billed seconds of one request.
        bounds: The bounds of each hour.
        target_utilization: The utilization that autoscaling aims at.
    """
    kept = beyond = 0.0
    for share, multiple, low, high in _pairs(traffic.loads, bounds):
        rate = traffic.rate * multiple
        wanted = math.ceil(rate * seconds / target_utilization)
        count = min(max(wanted, low), high)
        kept += share * count
        beyond += share * multiple * busy_beyond(rate, seconds, count)
    return kept, beyond


def _pairs(
    loads: tuple[Load, ...], bounds: tuple[HourBounds, ...]
) -> Iterator[tuple[float, float, int, int]]:
    """Yield share of the month, multiple, minimum and maximum of each load with each bounds."""
    shares = Counter[int | None]()
    for load in loads:
        shares[load.hour] += load.share  # type: ignore[assignment]
    for load in loads:
        for bound in bounds:
            if load.hour is None:
                yield load.share * bound.share, load.multiple, bound.minimum, bound.maximum
            elif load.hour == bound.hour:
                within = load.share / shares[load.hour]
                yield within * bound.share, load.multiple, bound.minimum, bound.maximum
