"""The share of requests that meet a cold start, from a formula for Poisson arrivals.

The number of requests in flight is a Poisson number with mean r = rate x duration (M/G/inf). If
Lambda reuses the environment that was used last, an environment's idle time is exactly the time in
which fewer than k requests are in flight: it begins when the number falls from k to k - 1, and the
next rise to k takes the environment again. The rise is a cold start if that took longer than the
idle timeout T:

    cold starts a second = sum over k of  rate * P(k - 1 in flight) * P(time from k - 1 to k > T)

For k = 1 the time is that between two arrivals of an idle system: exp(-rate * T). For k > 1 it is a
passage time of the birth-death chain M/M/inf, exact by the eigenvalues of its generator. A duration
that is not exponential changes the result by less than 3%
(`tests/operations/cost/test_simulation.py`).
"""

import functools
import math
from collections.abc import Sequence

import numpy as np

from operations.cost.traffic import MONTH_SECONDS, Load

__all__ = ["cold_start_rate", "cold_start_share"]

#: Terms below this part of the largest approximate term are left out.
_NEGLIGIBLE = 1e-6
#: States further below k than so many standard deviations are not reached within a passage.
_DEVIATIONS, _STATES = 8, 20
#: With more requests in flight, fewer than 0.01% meet a cold start, and terms within 15% suffice.
_EXACT_LOAD = 100


def cold_start_rate(rate: float, seconds: float, timeout: float) -> float:
    """Return cold starts a second for Poisson arrivals, if the last used environment is reused.

    Args:
        rate: Requests a second.
        seconds: The mean duration of a request.
        timeout: Seconds until an idle environment ends.
    """
    if rate <= 0:
        return 0.0
    load = rate * seconds
    levels = np.arange(1, int(load + 10 * math.sqrt(load) + 25) + 1)
    log_busy = (levels - 1) * math.log(load) - load - _log_factorials(len(levels))
    # An exponential passage time of the right mean makes each term right within 15%.
    passages = rate * np.exp(log_busy - np.logaddexp.accumulate(log_busy))
    busy = np.exp(log_busy)
    rough = rate * busy * np.exp(-passages * timeout)
    if load > _EXACT_LOAD:
        return float(rough.sum())
    relevant = levels[rough > _NEGLIGIBLE * rough.max()]
    return float(
        sum(rate * busy[k - 1] * _longer(rate, seconds, int(k), timeout) for k in relevant)
    )


def cold_start_share(
    loads: Sequence[Load], *, requests: float, seconds: float, timeout: float
) -> float:
    """Return the share of a month's requests that meet a cold start.

    Each load is taken as if it lasted: right for a rate that changes within hours, such as a
    diurnal one, and 1.6 to 4.4 times too low for bursts, which must be simulated.

    Args:
        loads: The traffic's loads.
        requests: Requests a month.
        seconds: The mean duration of a request.
        timeout: Seconds until an idle environment ends.
    """
    if requests <= 0:
        return 0.0
    shares: dict[float, float] = {}
    for load in loads:
        multiple = round(load.multiple, 6)  # Hours before and after noon have the same rate.
        shares[multiple] = shares.get(multiple, 0.0) + load.share
    mean = requests / MONTH_SECONDS
    found = (
        share * cold_start_rate(mean * multiple, seconds, timeout)
        for multiple, share in shares.items()
    )
    return min(1.0, sum(found) / mean)


def _longer(rate: float, seconds: float, level: int, timeout: float) -> float:
    """Return the probability that the number in flight takes longer from level - 1 to level."""
    if level == 1:
        return math.exp(-rate * timeout)
    values, weights = _passage(rate, seconds, level)
    return float(np.clip(np.exp(values * timeout) @ weights, 0.0, 1.0))


@functools.lru_cache(maxsize=4096)
def _passage(rate: float, seconds: float, level: int) -> tuple[np.ndarray, np.ndarray]:
    """Return exponents and weights of the passage time's tail: sum of weight * e^(exponent t)."""
    load = rate * seconds
    lowest = max(0, level - int(_DEVIATIONS * math.sqrt(load)) - _STATES)
    states = np.arange(lowest, level)
    # The generator on the states below the level, made symmetric by the stationary distribution.
    ends = -(rate + states / seconds)
    ends[0] = -rate  # Nothing falls below the lowest state.
    between = np.sqrt(rate * states[1:] / seconds)
    values, vectors = np.linalg.eigh(np.diag(ends) + np.diag(between, 1) + np.diag(between, -1))
    half = 0.5 * (states * math.log(load) - _log_factorials(level)[lowest:])
    return values, vectors[-1] * (vectors.T @ np.exp(half - half[-1]))


def _log_factorials(count: int) -> np.ndarray:
    """Return the logarithms of 0!, 1!, and so on, as float64 of shape (count,)."""
    return np.array([math.lgamma(number + 1) for number in range(count)])
