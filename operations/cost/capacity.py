"""Provisioned concurrency: how much a rate needs, and the share that is beyond what is there."""

import math

__all__ = ["REQUESTS_PER_SECOND", "busy_beyond", "needed_environments"]

#: AWS serves 10 synchronous requests a second for each execution environment:
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
REQUESTS_PER_SECOND = 10
#: Target tracking keeps this utilization at the most.
_HIGHEST_UTILIZATION = 0.9
#: The accepted share of time in which a request finds no provisioned environment.
_MISSED = 0.01


def needed_environments(rate: float, seconds: float) -> int:
    """Return the environments for Poisson arrivals, at least one.

    At most 1% of the time, more requests are in flight than there are environments; and no
    environment gets more than 10 requests a second.

    Args:
        rate: Requests a second.
        seconds: Billed seconds of one.
    """
    offered = rate * seconds / _HIGHEST_UTILIZATION
    count, log_probability, covered = 0, -offered, math.exp(-offered)
    while 1 - covered > _MISSED:
        count += 1
        log_probability += math.log(offered / count)
        covered += math.exp(log_probability)
        if count > offered + 10 * math.sqrt(offered) + 25:  # Rounding keeps the sum below one.
            break
    return max(1, count, math.ceil(rate / REQUESTS_PER_SECOND))


def busy_beyond(rate: float, seconds: float, environments: int) -> float:
    """Return the share of requests that find all provisioned environments busy, or at their limit.

    Erlang's loss formula, and 10 requests a second for each environment.
    """
    if rate <= 0:
        return 0.0
    offered, blocked = rate * seconds, 1.0
    for count in range(1, environments + 1):
        blocked = offered * blocked / (count + offered * blocked)
    limit = environments * REQUESTS_PER_SECOND
    return max(blocked, 1 - limit / rate)
