"""Lambda on demand, with SnapStart, with provisioned concurrency, and on managed instances."""

from dataclasses import dataclass

from embedding_kit.prices import HOURS, LineItem, Prices, priced
from operations.cost.option import Option
from operations.cost.traffic import MONTH_SECONDS

__all__ = [
    "ON_DEMAND",
    "PROVISIONED",
    "SNAPSTART",
    "LambdaUsage",
    "after_free_tier",
    "managed_instances",
    "on_demand",
    "provisioned",
    "snapstart",
]

ON_DEMAND = "Lambda on demand"
SNAPSTART = "Lambda SnapStart"
PROVISIONED = "Lambda provisioned"
#: Free in every month, for all functions of an account: https://aws.amazon.com/lambda/pricing/
_FREE_REQUESTS, _FREE_GB_SECONDS = 1_000_000, 400_000
#: https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-scaling.html
_MANAGED_FEWEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaUsage:
    """A month of a function."""

    requests: float
    #: Billed seconds of one request.
    seconds: float
    memory_mb: int
    #: Requests that meet a cold start.
    cold_starts: float = 0.0
    #: Billed seconds of one initialization. Images are billed for it.
    init_seconds: float = 0.8

    @property
    def gb(self) -> float:
        """The memory in GB."""
        return self.memory_mb / 1024

    @property
    def gb_seconds(self) -> float:
        """GB-seconds of the requests, without initializations."""
        return self.requests * self.seconds * self.gb


def on_demand(prices: Prices, usage: LambdaUsage) -> Option:
    """Price execution environments that are initialized on demand."""
    return Option(ON_DEMAND, tuple(_requests_and_duration(prices, usage, init=True)), "lambda")


def after_free_tier(prices: Prices, usage: LambdaUsage) -> Option:
    """Price on demand, if no other function of the account uses the free tier."""
    free_requests = min(usage.requests, _FREE_REQUESTS)
    init = usage.cold_starts * usage.init_seconds * usage.gb
    free_duration = min(usage.gb_seconds + init, _FREE_GB_SECONDS)
    free = (
        LineItem(
            "free requests",
            -free_requests,
            "request",
            -_usd(prices, "lambda_requests", free_requests),
        ),
        LineItem(
            "free duration",
            -free_duration,
            "GB-second",
            -_usd(prices, "lambda_duration", free_duration),
        ),
    )
    return Option(
        f"{ON_DEMAND}, after the free tier", (*on_demand(prices, usage).items, *free), "lambda"
    )


def snapstart(prices: Prices, usage: LambdaUsage, *, versions: float) -> Option:
    """Price restores from a snapshot.

    Args:
        prices: The prices.
        usage: The function's month.
        versions: The average number of published versions whose snapshot is kept.
    """
    items = (
        *_requests_and_duration(prices, usage, init=False),
        priced(prices, "lambda_snapshot", "snapshots", versions * usage.gb * MONTH_SECONDS),
        priced(prices, "lambda_restore", "restores", usage.cold_starts * usage.gb),
    )
    return Option(SNAPSTART, items, "lambda")


def provisioned(prices: Prices, usage: LambdaUsage, *, kept: float, spilled: float = 0.0) -> Option:
    """Price provisioned concurrency. The free tier does not apply to it.

    Args:
        prices: The prices.
        usage: The function's month.
        kept: The average provisioned concurrency.
        spilled: The share of requests beyond it, which run on demand.
    """
    beyond = usage.gb_seconds * spilled
    items = [
        priced(prices, "lambda_requests", "requests", usage.requests),
        priced(prices, "lambda_provisioned", "provisioned", kept * usage.gb * MONTH_SECONDS),
        priced(prices, "lambda_provisioned_duration", "duration", usage.gb_seconds - beyond),
    ]
    if beyond:
        items.append(priced(prices, "lambda_duration", "duration beyond it", beyond))
    return Option(PROVISIONED, tuple(items), "lambda")


def managed_instances(prices: Prices, requests: float, *, vcpus: float) -> Option:
    """Price Lambda Managed Instances of c7g.large; three at least."""
    count = max(_MANAGED_FEWEST, -(-vcpus // 2))
    items = (
        priced(prices, "ec2_c7g_large", "instances", count * HOURS),
        priced(prices, "managed_c7g_large", "management", count * HOURS),
        priced(prices, "lambda_requests", "requests", requests),
    )
    return Option("Lambda Managed Instances, c7g.large", items, "lambda")


def _requests_and_duration(prices: Prices, usage: LambdaUsage, *, init: bool) -> list[LineItem]:
    items = [
        priced(prices, "lambda_requests", "requests", usage.requests),
        priced(prices, "lambda_duration", "duration", usage.gb_seconds),
    ]
    if init:
        amount = usage.cold_starts * usage.init_seconds * usage.gb
        items.append(
            priced(prices, "lambda_duration", "initializations", amount, after=usage.gb_seconds)
        )
    return items


def _usd(prices: Prices, line: str, amount: float) -> float:
    return prices[line].total(amount)
