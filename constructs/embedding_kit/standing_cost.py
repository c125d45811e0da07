"""What an environment costs in a month without a request, and the default of its budget."""

import math
from dataclasses import dataclass

from embedding_kit.environment import Environment
from embedding_kit.prices import HOURS, LineItem, Prices, priced
from embedding_kit.scheduled_bounds import hourly_bounds
from embedding_kit.settings import (
    Provisioned,
    SnapStart,
    WeightedExperiment,
    artifact_in_s3,
    load_source,
)
from embedding_kit.settings.model_sizes import artifact_bytes
from embedding_kit.settings.package import LARGEST_ARTIFACT

__all__ = [
    "IMAGE_GB",
    "StoredZip",
    "alarm_metrics",
    "capacity_items",
    "default_budget",
    "monitoring_items",
    "server_items",
    "stored_zip",
]

#: An image with a model of up to 300 MB, as the registry stores it.
IMAGE_GB = 0.5
#: The packages and the code of a zip, compressed, as `scripts/bench zip` measures them.
_ZIP_GB = 0.026
#: The metrics that the alarms read, of which each is billed. A test counts those of templates.
_ALARM_METRICS = 19
_OF_SNAPSTART, _OF_PROVISIONED, _OF_TRAFFIC, _OF_BATCH, _OF_SERVER, _OF_LOADS = 1, 6, 1, 4, 9, 1
_OF_API = 7
#: With fixed weights no release moves the alias, so the alarms that would stop one are absent.
_OF_WEIGHTS = -4
#: A public load balancer has an address in each of two Availability Zones.
_ZONES = 2
#: A default budget is this multiple of the standing cost, and so many dollars for requests.
_TIMES, _FOR_REQUESTS = 1.5, 10
_ROUNDED_TO = 5


@dataclass(frozen=True, slots=True)
class StoredZip:
    """What S3 stores of one version of a zip, in GB."""

    zip_gb: float
    #: The artifact beside it; 0 if it is in the zip.
    artifact_gb: float


def stored_zip(environment: Environment) -> StoredZip:
    """Return what S3 stores of an environment's zip; an artifact of unknown size is the largest."""
    model = environment.model
    size = artifact_bytes(model)
    if artifact_in_s3(model, environment.function):
        return StoredZip(_ZIP_GB, IMAGE_GB if size is None else size / 1e9)
    return StoredZip(_ZIP_GB + (LARGEST_ARTIFACT if size is None else size) / 1e9, 0)


def monitoring_items(environment: Environment, prices: Prices) -> tuple[LineItem, ...]:
    """Return what watches over the endpoint, and the storage of its image, or zip and artifact.

    A key of your own is billed where it was created.

    Args:
        environment: The environment.
        prices: The prices of its region.
    """
    keys = int(environment.encryption is None)
    return (
        priced(prices, "alarm", "alarms, by metrics", alarm_metrics(environment)),
        priced(prices, "composite_alarm", "composite alarm", 1),
        priced(prices, "dashboard", "dashboard", 1),
        *([priced(prices, "key", "key of the topic", keys)] if keys else []),
        *_package_items(environment, prices),
    )


def _package_items(environment: Environment, prices: Prices) -> tuple[LineItem, ...]:
    if environment.function.package == "image":
        return (priced(prices, "image_storage", "image", IMAGE_GB),)
    stored = stored_zip(environment)
    zipped = priced(prices, "storage", "zip", stored.zip_gb)
    if not stored.artifact_gb:
        return (zipped,)
    return (zipped, priced(prices, "storage", "artifact in S3", stored.artifact_gb))


def capacity_items(environment: Environment, prices: Prices) -> tuple[LineItem, ...]:
    """Return what the strategy against cold starts bills without a request.

    Args:
        environment: The environment.
        prices: The prices of its region.
    """
    gb_seconds = environment.function.memory_mb / 1024 * HOURS * 3600
    cold_start = environment.cold_start
    if isinstance(cold_start, SnapStart):
        return (priced(prices, "lambda_snapshot", "snapshot", gb_seconds),)
    if isinstance(cold_start, Provisioned):
        kept = sum(bound.share * bound.minimum for bound in hourly_bounds(cold_start))
        return (priced(prices, "lambda_provisioned", "provisioned concurrency", kept * gb_seconds),)
    return ()


def server_items(environment: Environment, prices: Prices) -> tuple[LineItem, ...]:
    """Return the fewest tasks of the server beside the function, and its load balancer.

    Not included: the NAT gateway or the VPC endpoints of its subnets, which it shares with others.

    Args:
        environment: The environment.
        prices: The prices of its region.
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


def alarm_metrics(environment: Environment) -> int:
    """Return how many metrics the environment's alarms read."""
    index = environment.index
    loads = index is not None and load_source(index, environment.batch) is not None
    return (
        _ALARM_METRICS
        + _OF_SNAPSTART * isinstance(environment.cold_start, SnapStart)
        + _OF_PROVISIONED * isinstance(environment.cold_start, Provisioned)
        + _OF_TRAFFIC * (environment.alarms.traffic_every is not None)
        + _OF_BATCH * (environment.batch is not None)
        + _OF_SERVER * (environment.server is not None)
        + _OF_API * (environment.front is not None)
        + _OF_LOADS * loads
        + _OF_WEIGHTS * isinstance(environment.experiment, WeightedExperiment)
    )


def default_budget(environment: Environment, prices: Prices) -> float:
    """Return the dollars a month of a budget without an amount.

    It is 1.5 times the cost without a request and $10 for requests, rounded up to $5: a forgotten
    environment stays below it, and one whose traffic or capacity grows does not.

    Args:
        environment: The environment.
        prices: The prices of its region.
    """
    items = (
        *monitoring_items(environment, prices),
        *capacity_items(environment, prices),
        *server_items(environment, prices),
    )
    amount = _TIMES * sum(item.usd for item in items) + _FOR_REQUESTS
    return float(math.ceil(amount / _ROUNDED_TO) * _ROUNDED_TO)
