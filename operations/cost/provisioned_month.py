"""Provisioned concurrency through a month of traffic, within an environment's bounds."""

import math

from operations.cost.capacity import busy_beyond
from operations.cost.traffic import Traffic

__all__ = ["provisioned_month"]


def provisioned_month(
    traffic: Traffic,
    seconds: float,
    *,
    bounds: tuple[int, int],
    target_utilization: float,
) -> tuple[float, float]:
    """Return the average provisioned concurrency, and the share of requests beyond it.

    Autoscaling aims at the target within the bounds. A request that takes less than a tenth of a
    second cannot use an environment fully, because AWS serves it 10 requests a second.

    Args:
        traffic: The traffic.
        seconds: Billed seconds of one request.
        bounds: The lowest and the highest number.
        target_utilization: The utilization that autoscaling aims at.
    """
    kept = beyond = 0.0
    low, high = bounds
    for load in traffic.loads:
        rate = traffic.rate * load.multiple
        wanted = math.ceil(rate * seconds / target_utilization)
        count = min(max(wanted, low), high)
        kept += load.share * count
        beyond += load.share * load.multiple * busy_beyond(rate, seconds, count)
    return kept, beyond
