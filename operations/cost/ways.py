"""The ways to serve one traffic, priced, and where one becomes cheaper than another."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from embedding_kit.prices import HOURS, HostedModel, LineItem, Prices, priced
from operations.cost.workload import MONTH_SECONDS, VCPU_MB, Month, billed_seconds

ON_DEMAND = "Lambda on demand"
SNAPSTART = "Lambda SnapStart"
PROVISIONED = "Lambda provisioned"
#: AWS serves 10 synchronous requests a second for each execution environment:
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
REQUESTS_PER_SECOND = 10
#: Standard deviations of a Poisson number that it exceeds 1% of the time.
_EXCEEDED = 2.33
#: Free in every month, for all functions of an account: https://aws.amazon.com/lambda/pricing/
_FREE_REQUESTS, _FREE_GB_SECONDS = 1_000_000, 400_000
#: https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-scaling.html
_MANAGED_FEWEST = 3
#: Behind a load balancer, in two Availability Zones.
_FEWEST_SERVERS = 2
#: A server's queue grows quickly above this utilization.
_UTILIZATION = 0.6
#: Autoscaling of tasks follows the traffic with this much to spare.
_FOLLOWING = 1.3
_DISK_GB, _TASK_GB = 20, 2
#: vCPUs of a t4g.small and a c7g.large, and those that a t4g.small may use all the time. It pays
#: for what it uses above: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-credits-baseline-concepts.html
_VCPUS, _BASELINE = 2, 0.4
#: The range in which break-even points are looked for, in requests a month.
_FEWEST, _MOST = 1e3, 1e9
_STEPS = 36

Bill = tuple[LineItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A traffic, and the function that serves it."""

    month: Month
    #: Seconds of one core for one request.
    core_seconds: float
    memory_mb: int
    #: Billed seconds of one initialization. Images are billed for it.
    init_seconds: float = 0.0
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
    def peak_vcpus(self) -> float:
        """The vCPUs of servers that the peak needs at a utilization of 60%."""
        return self.month.rate * self.server_seconds * self.month.peak / _UTILIZATION

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
        kept = beyond = 0.0
        for rate in self.month.rates:
            wanted = rate * self.seconds / self.target_utilization
            if self.bounds is None:
                wanted = max(wanted + _EXCEEDED * math.sqrt(wanted), rate / REQUESTS_PER_SECOND)
                kept += max(1, math.ceil(wanted))
            else:
                low, high = self.bounds
                count = min(max(math.ceil(wanted), low), high)
                kept += count
                beyond += rate * busy_beyond(rate, self.seconds, count)
        total = sum(self.month.rates)
        return kept / len(self.month.rates), beyond / total if total else 0.0


Way = Callable[[Prices, Scenario], Bill]


def usd(bill: Bill) -> float:
    """Return US dollars a month."""
    return sum(item.usd for item in bill)


def ways(models: Sequence[HostedModel]) -> Mapping[str, Way]:
    """Return what prices each way to serve, by its name, in the table's order."""
    return {
        ON_DEMAND: _on_demand,
        f"{ON_DEMAND}, after the free tier": _after_free_tier,
        SNAPSTART: _snapstart,
        PROVISIONED: _provisioned,
        "Lambda Managed Instances, c7g.large": _managed_instances,
        "Fargate, 1 vCPU, load balancer": _fargate,
        "EC2 t4g.small, load balancer": _ec2,
        **{model.name: partial(_hosted, model) for model in models},
    }


def break_even(prices: Prices, scenario: Scenario, first: Way, second: Way) -> float | None:
    """Return the requests a month from which one way costs more than another.

    The lowest number that was tried if `first` costs more everywhere, None if nowhere. Cold starts
    are left out: above a million requests a month they are under 2% of the bill.
    """

    def dearer(requests: float) -> bool:
        month = replace(scenario.month, requests=requests)
        at = replace(scenario, month=month, cold_share=0.0)
        return usd(first(prices, at)) > usd(second(prices, at))

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
    init = scenario.month.requests * scenario.cold_share * scenario.init_seconds * scenario.gb
    return (
        *_requests_and_duration(prices, scenario),
        priced(prices, "lambda_duration", "initializations", init, after=scenario.gb_seconds),
    )


def _after_free_tier(prices: Prices, scenario: Scenario) -> Bill:
    """Price on demand, if no other function of the account uses the free tier."""
    bill = _on_demand(prices, scenario)
    requests, *durations = (item.amount for item in bill)
    free = (
        ("lambda_requests", "free requests", min(requests, _FREE_REQUESTS)),
        ("lambda_duration", "free duration", min(sum(durations), _FREE_GB_SECONDS)),
    )
    return bill + tuple(
        LineItem(name, -amount, prices[line].unit, -prices[line].total(amount))
        for line, name, amount in free
    )


def _snapstart(prices: Prices, scenario: Scenario) -> Bill:
    """Price one version's snapshot, and its restores."""
    restored = scenario.month.requests * scenario.cold_share * scenario.gb
    return (
        *_requests_and_duration(prices, scenario),
        priced(prices, "lambda_snapshot", "snapshots", scenario.gb * MONTH_SECONDS),
        priced(prices, "lambda_restore", "restores", restored),
    )


def _provisioned(prices: Prices, scenario: Scenario) -> Bill:
    """Price provisioned concurrency, and on demand beyond it. The free tier does not apply."""
    kept, spilled = scenario.provisioned
    beyond = scenario.gb_seconds * spilled
    items = [
        priced(prices, "lambda_requests", "requests", scenario.month.requests),
        priced(prices, "lambda_provisioned", "provisioned", kept * scenario.gb * MONTH_SECONDS),
        priced(prices, "lambda_provisioned_duration", "duration", scenario.gb_seconds - beyond),
    ]
    if beyond:
        items.append(priced(prices, "lambda_duration", "duration beyond it", beyond))
    return tuple(items)


def _managed_instances(prices: Prices, scenario: Scenario) -> Bill:
    hours = max(_MANAGED_FEWEST, math.ceil(scenario.peak_vcpus / _VCPUS)) * HOURS
    return (
        priced(prices, "ec2_c7g_large", "instances", hours),
        priced(prices, "managed_c7g_large", "management", hours),
        priced(prices, "lambda_requests", "requests", scenario.month.requests),
    )


def _fargate(prices: Prices, scenario: Scenario) -> Bill:
    """Price tasks of one vCPU and 2 GB behind a load balancer. Their number follows the traffic."""
    vcpus = scenario.peak_vcpus
    if scenario.month.shape != "flat":
        vcpus = vcpus / scenario.month.peak * _FOLLOWING
    tasks = max(_FEWEST_SERVERS, math.ceil(vcpus))
    hours = tasks * HOURS
    return (
        priced(prices, "fargate_vcpu", f"{tasks} tasks, vCPU", hours),
        priced(prices, "fargate_memory", f"{tasks} tasks, memory", hours * _TASK_GB),
        priced(prices, "public_ipv4", "their public addresses", hours),
        *_load_balancer(prices),
    )


def _ec2(prices: Prices, scenario: Scenario) -> Bill:
    """Price t4g.small for the peak, with the credits that they use above their baseline."""
    count = max(_FEWEST_SERVERS, math.ceil(scenario.peak_vcpus / _VCPUS))
    hours = count * HOURS
    surplus = max(0.0, scenario.month.rate * scenario.server_seconds - count * _BASELINE) * HOURS
    return (
        priced(prices, "ec2_t4g_small", f"{count} instances", hours),
        priced(prices, "public_ipv4", "their public addresses", hours),
        priced(prices, "ec2_disk", "their disks", count * _DISK_GB),
        priced(prices, "ec2_t4g_credits", "above the baseline", surplus),
        *_load_balancer(prices),
    )


def _hosted(model: HostedModel, _: Prices, scenario: Scenario) -> Bill:
    amount = scenario.month.requests * scenario.month.tokens
    return (LineItem("tokens", amount, "token", amount / 1e6 * model.usd_per_million_tokens),)


def _requests_and_duration(prices: Prices, scenario: Scenario) -> Bill:
    return (
        priced(prices, "lambda_requests", "requests", scenario.month.requests),
        priced(prices, "lambda_duration", "duration", scenario.gb_seconds),
    )


def _load_balancer(prices: Prices) -> Bill:
    """Price a load balancer in two zones, with one capacity unit."""
    return (
        priced(prices, "load_balancer", "load balancer", HOURS),
        priced(prices, "load_balancer_capacity", "its capacity", HOURS),
        priced(prices, "public_ipv4", "its public addresses", 2 * HOURS),
    )
