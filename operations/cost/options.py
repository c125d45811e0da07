"""All ways to serve one traffic, priced, and where one becomes cheaper than another."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from embedding_kit.prices import HostedModel, LineItem, Prices
from operations.cost.capacity import needed_environments
from operations.cost.duration import VCPU_MB, billed_seconds
from operations.cost.lambda_options import (
    LambdaUsage,
    after_free_tier,
    managed_instances,
    on_demand,
    provisioned,
    snapstart,
)
from operations.cost.option import Option
from operations.cost.provisioned_month import provisioned_month
from operations.cost.server_options import INSTANCES, ec2, fargate, needed_vcpus
from operations.cost.traffic import Traffic

__all__ = ["Scenario", "all_options", "break_even", "hosted"]

#: The range in which break-even points are looked for, in requests a month.
_FEWEST, _MOST = 1e3, 1e9
_STEPS = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A traffic, and the function that serves it."""

    traffic: Traffic
    #: Seconds of one core for one request.
    core_seconds: float
    memory_mb: int
    threads: int | None = None
    #: The share of requests that meets a cold start.
    cold_share: float = 0.0
    init_seconds: float = 0.8
    #: The average number of published versions with a snapshot.
    snapshots: float = 1.0
    #: The fewest servers behind a load balancer: two, for two Availability Zones.
    fewest_servers: int = 2
    #: The environment's highest minimum and maximum of provisioned concurrency; scaled to the
    #: traffic if None.
    bounds: tuple[int, int] | None = None
    #: The utilization that autoscaling aims at.
    target_utilization: float = 0.9

    @property
    def seconds(self) -> float:
        """Billed seconds of one request on Lambda."""
        return billed_seconds(self.core_seconds, memory_mb=self.memory_mb, threads=self.threads)

    @property
    def usage(self) -> LambdaUsage:
        """The function's month."""
        requests = self.traffic.requests
        return LambdaUsage(
            requests=requests,
            seconds=self.seconds,
            memory_mb=self.memory_mb,
            cold_starts=requests * self.cold_share,
            init_seconds=self.init_seconds,
        )

    @property
    def provisioned(self) -> tuple[float, float]:
        """The average provisioned concurrency, and the share of requests beyond it."""
        if self.bounds is None:
            rate, seconds = self.traffic.rate, self.seconds
            kept = sum(
                load.share * needed_environments(rate * load.multiple, seconds)
                for load in self.traffic.loads
            )
            return kept, 0.0
        return provisioned_month(
            self.traffic,
            self.seconds,
            bounds=self.bounds,
            target_utilization=self.target_utilization,
        )

    def at(self, requests: float) -> "Scenario":
        """Return the scenario with another number of requests, without cold starts."""
        return replace(self, traffic=replace(self.traffic, requests=requests), cold_share=0.0)


def all_options(
    prices: Prices, models: Sequence[HostedModel], scenario: Scenario
) -> tuple[Option, ...]:
    """Price each way to serve the traffic."""
    return tuple(price(scenario) for price in _ways(prices, models))


def hosted(model: HostedModel, traffic: Traffic) -> Option:
    """Price a hosted API."""
    tokens = traffic.requests * traffic.tokens
    usd = tokens / 1e6 * model.usd_per_million_tokens
    return Option(model.name, (LineItem("tokens", tokens, "token", usd),), "hosted")


def break_even(
    prices: Prices, models: Sequence[HostedModel], scenario: Scenario, name: str, other: str
) -> float | None:
    """Return the requests a month from which `name` costs more than `other`.

    Cold starts are left out: above a million requests a month they are under 2% of the bill.

    Args:
        prices: The prices.
        models: The hosted APIs.
        scenario: The traffic's shape and the function.
        name: An option.
        other: Another option.

    Returns:
        The requests; the lowest number that was tried if `name` costs more everywhere, None if it
        costs more nowhere.
    """
    ways = {price(scenario).name: price for price in _ways(prices, models)}
    first, second = ways[name], ways[other]

    def dearer(requests: float) -> bool:
        at = scenario.at(requests)
        return first(at).usd > second(at).usd

    if dearer(_FEWEST):
        return _FEWEST
    low = _FEWEST
    for step in range(1, _STEPS + 1):
        high = float(_FEWEST * (_MOST / _FEWEST) ** (step / _STEPS))
        if dearer(high):
            for _ in range(20):
                middle = math.sqrt(low * high)
                low, high = (low, middle) if dearer(middle) else (middle, high)
            return high
        low = high
    return None


def _ways(
    prices: Prices, models: Sequence[HostedModel]
) -> tuple[Callable[[Scenario], Option], ...]:
    """Return a function for each way to serve, in the table's order."""

    def kept(scenario: Scenario) -> Option:
        average, spilled = scenario.provisioned
        return provisioned(prices, scenario.usage, kept=average, spilled=spilled)

    def managed(scenario: Scenario) -> Option:
        one = billed_seconds(scenario.core_seconds, memory_mb=VCPU_MB)
        return managed_instances(
            prices,
            scenario.traffic.requests,
            vcpus=math.ceil(needed_vcpus(scenario.traffic, one)),
        )

    def instances(name: str, *, balanced: bool) -> Callable[[Scenario], Option]:
        return lambda scenario: ec2(
            prices,
            scenario.traffic,
            billed_seconds(scenario.core_seconds, memory_mb=VCPU_MB),
            instance=name,
            fewest=scenario.fewest_servers if balanced else 1,
            balanced=balanced,
        )

    def tasks(scenario: Scenario) -> Option:
        one = billed_seconds(scenario.core_seconds, memory_mb=VCPU_MB)
        return fargate(prices, scenario.traffic, one, fewest=scenario.fewest_servers)

    def api(model: HostedModel) -> Callable[[Scenario], Option]:
        return lambda scenario: hosted(model, scenario.traffic)

    return (
        lambda scenario: on_demand(prices, scenario.usage),
        lambda scenario: after_free_tier(prices, scenario.usage),
        lambda scenario: snapstart(prices, scenario.usage, versions=scenario.snapshots),
        kept,
        managed,
        tasks,
        *(instances(name, balanced=True) for name in INSTANCES),
        instances("t4g.small", balanced=False),
        *(api(model) for model in models),
    )
