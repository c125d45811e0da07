"""Fargate and EC2, with and without a load balancer."""

import math

from embedding_kit.prices import HOURS, LineItem, Prices, priced
from operations.cost.option import Option
from operations.cost.traffic import Traffic

__all__ = ["INSTANCES", "ec2", "fargate", "needed_vcpus"]

#: vCPUs of an instance type, and those that it may use all the time. A burstable instance pays
#: for what it uses above its baseline: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-credits-baseline-concepts.html
INSTANCES: dict[str, tuple[int, float]] = {
    "t4g.small": (2, 0.4),
    "t4g.medium": (2, 0.4),
    "c7g.large": (2, 2.0),
}
#: A server's queue grows quickly above this utilization.
_UTILIZATION = 0.6
#: Autoscaling of tasks follows the traffic with this much to spare.
_FOLLOWING = 1.3
_DISK_GB = 20
_TASK_GB = 2


def needed_vcpus(traffic: Traffic, core_seconds: float) -> float:
    """Return the vCPUs that the peak needs at a utilization of 60%."""
    return traffic.rate * core_seconds * traffic.peak / _UTILIZATION


def fargate(prices: Prices, traffic: Traffic, core_seconds: float, *, fewest: int) -> Option:
    """Price Fargate tasks of one vCPU and 2 GB behind a load balancer.

    Their number follows the traffic.

    Args:
        prices: The prices.
        traffic: The traffic.
        core_seconds: Seconds of one core for a request.
        fewest: The fewest tasks.
    """
    tasks = max(fewest, math.ceil(needed_vcpus(traffic, core_seconds)))
    if traffic.shape != "flat":
        mean = traffic.rate * core_seconds / _UTILIZATION
        tasks = max(fewest, math.ceil(mean * _FOLLOWING))
    hours = tasks * HOURS
    items = (
        priced(prices, "fargate_vcpu", f"{tasks} tasks, vCPU", hours),
        priced(prices, "fargate_memory", f"{tasks} tasks, memory", hours * _TASK_GB),
        priced(prices, "public_ipv4", "their public addresses", hours),
        *_front(prices),
    )
    return Option("Fargate, 1 vCPU, load balancer", items, "server")


def ec2(
    prices: Prices,
    traffic: Traffic,
    core_seconds: float,
    *,
    instance: str,
    fewest: int,
    balanced: bool = True,
) -> Option:
    """Price EC2 instances for the peak.

    Args:
        prices: The prices.
        traffic: The traffic.
        core_seconds: Seconds of one core for a request.
        instance: A type in `INSTANCES`.
        fewest: The fewest instances.
        balanced: Whether a load balancer is in front. Without, there is no TLS name.
    """
    vcpus, baseline = INSTANCES[instance]
    count = max(fewest, math.ceil(needed_vcpus(traffic, core_seconds) / vcpus))
    hours = count * HOURS
    surplus = max(0.0, traffic.rate * core_seconds - count * baseline) * HOURS
    line = f"ec2_{instance.replace('.', '_')}"
    items = [
        priced(prices, line, f"{count} instances", hours),
        priced(prices, "public_ipv4", "their public addresses", hours),
        priced(prices, "ec2_disk", "their disks", count * _DISK_GB),
    ]
    if baseline < vcpus:
        items.append(priced(prices, "ec2_t4g_credits", "above the baseline", surplus))
    items += _front(prices) if balanced else []
    name = f"EC2 {instance}, load balancer" if balanced else f"EC2 {instance}, bare"
    return Option(name, tuple(items), "server")


def _front(prices: Prices) -> list[LineItem]:
    """Price a load balancer in two zones, with one capacity unit."""
    return [
        priced(prices, "load_balancer", "load balancer", HOURS),
        priced(prices, "load_balancer_capacity", "its capacity", HOURS),
        priced(prices, "public_ipv4", "its public addresses", 2 * HOURS),
    ]
