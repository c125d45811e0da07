"""The ways to serve one traffic, priced, and where one becomes cheaper than another."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from embedding_kit.prices import HOURS, HostedModel, LineItem, Prices, priced
from operations.cost.workload import MONTH_SECONDS, VCPU_MB, Month, billed_seconds

ON_DEMAND = "Lambda on demand"
SNAPSTART = "Lambda SnapStart"
PROVISIONED = "Lambda provisioned"
FARGATE = "Fargate, 1 vCPU, load balancer"
#: AWS serves 10 synchronous requests a second for each execution environment:
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
REQUESTS_PER_SECOND = 10
#: Standard deviations of a Poisson number that it exceeds 1% of the time.
_EXCEEDED = 2.33
#: Behind a load balancer, in two Availability Zones.
_FEWEST_TASKS = 2
#: A server's queue grows quickly above this utilization.
_UTILIZATION = 0.6
#: Autoscaling of tasks follows the traffic with this much to spare.
_FOLLOWING = 1.3
_TASK_GB = 2
#: The range in which break-even points are looked for, in requests a month.
LOWEST, _HIGHEST = 1e3, 1e9
_STEPS = 3000

Bill = tuple[LineItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A traffic, and the function that serves it."""

    month: Month
    #: Seconds of one core for one request.
    core_seconds: float
    memory_mb: int
    #: The share of requests that meets a cold start.
    cold_share: float = 0.0
    #: The environment's highest minimum and maximum of provisioned concurrency; scaled to the
    #: traffic if None.
    bounds: tuple[int, int] | None = None
    #: The utilization that autoscaling aims at.
    target_utilization: float = 0.9

    @property
    def seconds(self) -> float:
        """Billed seconds of one request on Lambda."""
        return billed_seconds(self.core_seconds, memory_mb=self.memory_mb)

    @property
    def server_seconds(self) -> float:
        """Seconds of one vCPU of a server for a request."""
        return billed_seconds(self.core_seconds, memory_mb=VCPU_MB)

    @property
    def gb(self) -> float:
        """The function's memory in GB."""
        return self.memory_mb / 1024

    @property
    def gb_seconds(self) -> float:
        """GB-seconds of the requests, without initializations."""
        return self.month.requests * self.seconds * self.gb

    @property
    def provisioned(self) -> tuple[float, float]:
        """The average provisioned concurrency, and the share of requests beyond it.

        Autoscaling aims at the target within the bounds. Without bounds there are as many
        environments as are exceeded 1% of the time.
        """
        environments = beyond = 0.0
        for rate in self.month.rates:
            target = rate * self.seconds / self.target_utilization
            if self.bounds is None:
                target = max(target + _EXCEEDED * math.sqrt(target), rate / REQUESTS_PER_SECOND)
                environments += max(1, math.ceil(target))
            else:
                low, high = self.bounds
                count = min(max(math.ceil(target), low), high)
                environments += count
                beyond += rate * busy_beyond(rate, self.seconds, count)
        total = sum(self.month.rates)
        return environments / len(self.month.rates), beyond / total if total else 0.0


#: A way to serve the traffic, by the bill of a scenario.
Alternative = Callable[[Prices, Scenario], Bill]


def usd(bill: Bill) -> float:
    """Return US dollars a month."""
    return sum(item.usd for item in bill)


def alternatives(models: Sequence[HostedModel]) -> Mapping[str, Alternative]:
    """Return each way to serve by its name, in the table's order."""
    return {
        ON_DEMAND: _on_demand,
        SNAPSTART: _snapstart,
        PROVISIONED: _provisioned,
        FARGATE: _fargate,
        **{model.name: partial(_hosted, model) for model in models},
    }


def break_even(
    prices: Prices, scenario: Scenario, first: Alternative, second: Alternative
) -> float | None:
    """Return the requests a month from which on one way costs more than another.

    The lowest number that is tried if `first` costs more there; None without such a number. Cold
    starts are left out.
    """

    def dearer(requests: float) -> bool:
        month = replace(scenario.month, requests=requests)
        at = replace(scenario, month=month, cold_share=0.0)
        return usd(first(prices, at)) > usd(second(prices, at))

    if dearer(LOWEST):
        return LOWEST
    falling = (_HIGHEST * (LOWEST / _HIGHEST) ** (step / _STEPS) for step in range(_STEPS))
    return min(takewhile(dearer, falling), default=None)


def busy_beyond(rate: float, seconds: float, environments: int) -> float:
    """Return the share of requests that find all provisioned environments busy, or at their limit.

    Erlang's loss formula, and 10 requests a second for each environment. `rate` is that of requests
    a second, `seconds` the billed ones of a request.
    """
    if rate <= 0:
        return 0.0
    offered, blocked = rate * seconds, 1.0
    for count in range(1, environments + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return max(blocked, 1 - environments * REQUESTS_PER_SECOND / rate)


def _on_demand(prices: Prices, scenario: Scenario) -> Bill:
    return (
        priced(prices, "lambda_requests", "requests", scenario.month.requests),
        priced(prices, "lambda_duration", "duration", scenario.gb_seconds),
    )


def _snapstart(prices: Prices, scenario: Scenario) -> Bill:
    """Price one version's snapshot, and its restores."""
    restored = scenario.month.requests * scenario.cold_share * scenario.gb
    return (
        *_on_demand(prices, scenario),
        priced(prices, "lambda_snapshot", "snapshots", scenario.gb * MONTH_SECONDS),
        priced(prices, "lambda_restore", "restores", restored),
    )


def _provisioned(prices: Prices, scenario: Scenario) -> Bill:
    """Price provisioned concurrency, and on demand beyond it."""
    environments, share = scenario.provisioned
    beyond = scenario.gb_seconds * share
    gb_seconds = environments * scenario.gb * MONTH_SECONDS
    items = [
        priced(prices, "lambda_requests", "requests", scenario.month.requests),
        priced(prices, "lambda_provisioned", "provisioned", gb_seconds),
        priced(prices, "lambda_provisioned_duration", "duration", scenario.gb_seconds - beyond),
    ]
    if beyond:
        items.append(priced(prices, "lambda_duration", "duration beyond it", beyond))
    return tuple(items)


def _fargate(prices: Prices, scenario: Scenario) -> Bill:
    """Price tasks of one vCPU and 2 GB behind a load balancer. Their number follows the traffic."""
    vcpus = scenario.month.rate * scenario.server_seconds / _UTILIZATION * _FOLLOWING
    tasks = max(_FEWEST_TASKS, math.ceil(vcpus))
    hours = tasks * HOURS
    return (
        priced(prices, "fargate_vcpu", f"{tasks} tasks, vCPU", hours),
        priced(prices, "fargate_memory", f"{tasks} tasks, memory", hours * _TASK_GB),
        priced(prices, "public_ipv4", "their public addresses", hours),
        # In two zones, with one capacity unit.
        priced(prices, "load_balancer", "load balancer", HOURS),
        priced(prices, "load_balancer_capacity", "its capacity", HOURS),
        priced(prices, "public_ipv4", "its public addresses", 2 * HOURS),
    )


def _hosted(model: HostedModel, _: Prices, scenario: Scenario) -> Bill:
    amount = scenario.month.requests * scenario.month.tokens
    return (LineItem("tokens", amount, "token", amount / 1e6 * model.usd_per_million_tokens),)
