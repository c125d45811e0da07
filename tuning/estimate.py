"""What a run will cost and how long it will take, before it begins."""

from collections.abc import Sequence
from dataclasses import dataclass

from embedding_costs.duration import Speed, billed_seconds, core_seconds
from embedding_kit.prices import Prices
from tuning.measure import Plan
from tuning.sizes import Size
from tuning.workload import Workload

__all__ = ["Estimate", "estimate"]

#: An initialization, as `scripts/cost` assumes it.
_INIT_SECONDS = 0.8
#: To change the function's configuration, and to fetch the image for a new environment. Inferred.
_START_SECONDS = 8.0
#: The way to the region and back.
_NETWORK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of a run."""

    usd: float
    minutes: float
    #: Whether it takes each request to last until the function's timeout, for no times are known.
    at_most: bool

    def __str__(self) -> str:
        about = "at most" if self.at_most else "about"
        return f"{about} ${self.usd:.2f} and {max(1, round(self.minutes))} minutes"


def estimate(
    sizes: Sequence[Size],
    workload: Workload,
    plan: Plan,
    prices: Prices,
    *,
    speed: Speed | None,
    timeout: float,
) -> Estimate:
    """Estimate a run.

    Args:
        sizes: The sizes.
        workload: The lengths.
        plan: How much is measured.
        prices: The prices of the region.
        speed: The model's times of one core; None if unknown.
        timeout: The function's timeout in seconds, for a model without times.
    """
    usd = seconds = 0.0
    for size in sizes:
        times = [
            _seconds(length.tokens, workload.texts, size, speed, timeout)
            for length in workload.lengths
        ]
        running = plan.starts * (_INIT_SECONDS + times[0] + (1 + plan.requests) * sum(times))
        usd += running * size.gb * prices["lambda_duration"].usd
        seconds += running + plan.starts * _START_SECONDS
    count = plan.invocations(len(sizes), len(workload.lengths))
    usd += count * prices["lambda_requests"].usd
    return Estimate(usd, (seconds + count * _NETWORK_SECONDS) / 60, at_most=speed is None)


def _seconds(tokens: int, texts: int, size: Size, speed: Speed | None, timeout: float) -> float:
    if speed is None:
        return timeout
    core = texts * core_seconds(speed, max(1, round(tokens / texts)))
    return billed_seconds(core, memory_mb=size.memory_mb, threads=size.threads)
