"""What requests cost on Lambda, by the model of the cost command.

A test never sees its bill: Lambda reports the billed duration to its log alone. So there are two
figures. The estimate is the billed duration that `embedding_costs` computes from the tokens that
the endpoint counted. The upper bound takes the whole time in which a request was waited for: Lambda
serves one request at a time in an environment, so it cannot have billed more than that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from embedding_costs.duration import Speed, billed_seconds, core_seconds
from embedding_costs.extras import LOG_BYTES
from embedding_costs.lambda_options import LambdaUsage, on_demand, snapstart
from embedding_costs.option import Option
from embedding_kit.prices import Prices
from embedding_load.outcomes import Kind, Outcome

__all__ = ["Bill", "Cost", "bill_of"]

#: The initialization of an image, as the cost command assumes it.
_INIT_SECONDS = LambdaUsage(requests=0, seconds=0, memory_mb=0).init_seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars of one request, or of many."""

    estimate: float = 0.0
    bound: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.estimate + other.estimate, self.bound + other.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The prices of one function, and the time that it takes.

    Attributes:
        request: US dollars of a request, with its lines in the log.
        second: US dollars of a billed second.
        cold_start: US dollars of an initialization or a restore.
        init_seconds: The time of an initialization or a restore.
        seconds: Returns the billed seconds of a request by its tokens.
        timeout: The seconds after which the function is stopped.
        basis: Where the figures come from, in words.
    """

    request: float
    second: float
    cold_start: float
    init_seconds: float
    seconds: Callable[[int], float]
    timeout: float
    basis: str

    def planned(self, tokens: int) -> float:
        """Return the estimate for a request that meets no cold start."""
        return self.request + self.second * self.seconds(tokens)

    def of(self, outcome: Outcome) -> Cost:
        """Return the cost of a request.

        A throttled or refused request does not run the function and is not billed, by Lambda and by
        API Gateway. One without an answer may run until the function's timeout.
        """
        if outcome.kind in {Kind.THROTTLED, Kind.REFUSED, Kind.UNSENT}:
            return Cost()
        waited = outcome.service
        if outcome.kind in {Kind.TIMEOUT, Kind.UNANSWERED}:
            waited = max(waited, self.timeout)
        estimate = self.planned(outcome.counted or outcome.asked)
        if outcome.cold:
            estimate += self.cold_start
        # A restore has a price of its own, and is within the time waited.
        bound = self.request + self.second * waited + (self.cold_start if outcome.cold else 0.0)
        return Cost(estimate, max(estimate, bound))


def bill_of(
    prices: Prices,
    *,
    speed: Speed,
    memory_mb: int,
    threads: int | None,
    timeout: float,
    restores: bool = False,
    gateway: bool = False,
) -> Bill:
    """Return the bill of a function.

    Duration has the price of on demand. With provisioned concurrency that is an upper bound, which
    requests beyond it pay.

    Args:
        prices: The prices of its region.
        speed: How long a text takes on one core.
        memory_mb: Its memory.
        threads: Its inference threads; one for each whole vCPU if None.
        timeout: Its timeout in seconds.
        restores: Whether a cold start is a restore of SnapStart.
        gateway: Whether a REST API of API Gateway is in front of it.
    """

    def usd(*, seconds: float, cold: float) -> float:
        usage = LambdaUsage(
            requests=1,
            seconds=seconds,
            memory_mb=memory_mb,
            cold_starts=cold,
            init_seconds=_INIT_SECONDS,
        )
        option: Option = (
            snapstart(prices, usage, versions=0) if restores else on_demand(prices, usage)
        )
        return option.usd

    @cache
    def seconds_of(tokens: int) -> float:
        return billed_seconds(core_seconds(speed, tokens), memory_mb=memory_mb, threads=threads)

    request = usd(seconds=0, cold=0)
    beside = prices["log_ingestion"].usd * LOG_BYTES / 1e9
    if gateway:
        beside += prices["rest_requests"].usd
    return Bill(
        request=request + beside,
        second=usd(seconds=1, cold=0) - request,
        cold_start=usd(seconds=0, cold=1) - request,
        init_seconds=_INIT_SECONDS,
        seconds=seconds_of,
        timeout=timeout,
        basis=f"{memory_mb:,} MB in {prices.region}; times: {speed.source}",
    )
