"""Cold starts of a test that begins without an environment."""

import heapq
from collections.abc import Iterable

__all__ = ["starts_from_nothing"]


def starts_from_nothing(
    requests: Iterable[tuple[float, float]], *, init_seconds: float, timeout: float
) -> int:
    """Count cold starts if the environment that was used last is taken.

    `embedding_costs.simulation` counts those of a month, in which the time of an initialization
    hardly matters. At the beginning of a test it does: until the first environments are ready, each
    further request starts another.

    Args:
        requests: Pairs of a rising arrival and a duration, in seconds.
        init_seconds: The time of an initialization, which the first request waits for.
        timeout: Seconds after which an idle environment ends.
    """
    busy: list[float] = []
    idle: list[float] = []
    cold = 0
    for arrival, duration in requests:
        while busy and busy[0] <= arrival:
            idle.append(heapq.heappop(busy))
        if idle and arrival - idle[-1] <= timeout:
            idle.pop()
            heapq.heappush(busy, arrival + duration)
        else:
            # The others are idle for longer.
            idle.clear()
            cold += 1
            heapq.heappush(busy, arrival + init_seconds + duration)
    return cold
