"""The cost of an environment without requests, and the default of its budget."""

import math

from embedding_kit.prices import HOURS, LineItem, Prices, priced
from embedding_kit.settings import Provisioned, SnapStart
from stacks.environment import EnvironmentSettings

#: A public load balancer has an address in each of two Availability Zones.
_ZONES = 2
#: A default budget has so many dollars for monitoring and requests, and this multiple of what runs.
_FOR_REQUESTS, _TIMES = 20, 1.5
_ROUNDED_TO = 5


def capacity_items(environment: EnvironmentSettings, prices: Prices) -> tuple[LineItem, ...]:
    """Return what the strategy against cold starts bills without a request."""
    gb_seconds = environment.function.memory_mb / 1024 * HOURS * 3600
    cold_start = environment.cold_start
    if isinstance(cold_start, SnapStart):
        return (priced(prices, "lambda_snapshot", "snapshot", gb_seconds),)
    if isinstance(cold_start, Provisioned):
        amount = cold_start.highest_minimum * gb_seconds
        return (priced(prices, "lambda_provisioned", "provisioned concurrency", amount),)
    return ()


def server_items(environment: EnvironmentSettings, prices: Prices) -> tuple[LineItem, ...]:
    """Return the fewest tasks of the server next to the function, and its load balancer.

    Not included: the NAT gateway or the VPC endpoints of its subnets, which it shares with others.
    """
    server = environment.server
    if server is None:
        return ()
    hours = server.minimum * HOURS
    public = (priced(prices, "public_ipv4", "server, public addresses", _ZONES * HOURS),)
    return (
        priced(prices, "fargate_vcpu", "server, vCPU", hours * server.cpu / 1024),
        priced(prices, "fargate_memory", "server, memory", hours * server.memory_mb / 1024),
        priced(prices, "load_balancer", "server, load balancer", HOURS),
        priced(prices, "load_balancer_capacity", "server, its capacity", HOURS),
        *(public if server.public else ()),
    )


def default_budget(environment: EnvironmentSettings, prices: Prices) -> float:
    """Return the dollars a month of a budget without an amount.

    It is $20 for monitoring and requests and 1.5 times what runs without a request, rounded up to
    $5: a forgotten environment stays below it, and one with growing traffic or capacity does not.
    """
    items = (*capacity_items(environment, prices), *server_items(environment, prices))
    amount = _FOR_REQUESTS + _TIMES * sum(item.usd for item in items)
    return float(math.ceil(amount / _ROUNDED_TO) * _ROUNDED_TO)
