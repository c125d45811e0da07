"""What a bill has beside the endpoint: logs, releases, front, network, batch and more."""

from collections.abc import Callable
from dataclasses import dataclass

from embedding_kit.environment import Environment
from embedding_kit.prices import HOURS, LineItem, Prices, priced
from embedding_kit.settings import Provisioned, SnapStart
from embedding_kit.settings.index import index_dimension
from embedding_kit.standing_cost import server_items
from operations.cost.deployed import stored_zip

__all__ = ["EXTRAS", "LOG_BYTES", "Volumes", "extra_items"]

#: Bytes of log of one request: the embedder's line and its record of metrics (about 1,450), the
#: platform's start and report (480), and 26 bytes of each of the four that CloudWatch adds.
LOG_BYTES = 2000
#: A limit for each address, and three groups of AWS.
_FIREWALL_RULES = 4
#: Metrics in an hour with requests of one version, API and status: 5 of the platform's records, 9
#: of the embedder, 9 by API and status, and 2 of the version (docs/operations.md).
_METRICS = 25
#: A snapshot is billed for three hours at least: https://aws.amazon.com/lambda/pricing/
_SNAPSHOT_HOURS = 3.0
#: A release before and after its shift: the new version is warmed and checked.
_RELEASE_HOURS = 0.25
#: Nothing expires in the bucket of zips and artifacts: a year of them is counted.
_MONTHS_KEPT = 12
#: Bytes of a part: the CDK's command uploads so many at once, and a function downloads so many.
#: https://docs.aws.amazon.com/AWSJavaScriptSDK/v3/latest/Package/-aws-sdk-lib-storage/
_UPLOADED, _DOWNLOADED = 5 << 20, 16 << 20
#: A shard of a batch job has about so many texts, and makes so many requests to S3.
_SHARD_TEXTS, _SHARD_WRITES, _SHARD_READS = 500, 1, 10
_EXPRESS_GB = 64 / 1024
#: Bytes of a line of the access log, and months that it is kept.
_ACCESS_LOG_BYTES, _ACCESS_LOG_MONTHS = 600, 3
#: Bytes of a stored vector beside its numbers: its key, and its text and metadata.
_METADATA_BYTES = 1000
#: Bytes of a call by Invoke in both directions: a text of 1,000 in its event, and a vector of 768
#: numbers in base64, 4,096, in its result.
_CALL_BYTES = 6000
#: Availability Zones of an interface endpoint, where the subnets are not known.
_ZONES = 2
_GB, _TB = 1e9, 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Volumes:
    """Amounts of a month that no environment's file says."""

    requests: float
    #: Requests that X-Ray would trace.
    sampled: float
    #: Seconds of one core for one text.
    core_seconds: float
    releases: float = 4.0
    #: Texts that batch jobs embed.
    batch_texts: float = 0.0
    #: Vectors that are loaded into the index in this month, and kept.
    vectors: float = 0.0
    #: Searches of the index.
    searches: float = 0.0


Extra = Callable[[Environment, Prices, Volumes], tuple[LineItem, ...]]


def extra_items(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Return the items of all extras that the environment has switched on."""
    return tuple(item for extra in EXTRAS for item in extra(environment, prices, volumes))


def _logs(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    gigabytes = volumes.requests * LOG_BYTES / 1e9
    months = environment.function.log_retention_days / 30
    return (
        priced(prices, "log_ingestion", "logs, written", gigabytes),
        priced(prices, "log_storage", "logs, kept", gigabytes * months),
    )


def _metrics(_: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    return (priced(prices, "metric", "metrics", _METRICS if volumes.requests else 0),)


def _traces(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Price the traces of requests. Not included: those of batch jobs and loads."""
    if not environment.observability.tracing:
        return ()
    return (priced(prices, "traces", "traces of X-Ray", volumes.sampled),)


def _releases(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Price the second version while traffic shifts to it."""
    hours = environment.release.shift.total_seconds() / 3600 + _RELEASE_HOURS
    gb_seconds = environment.function.memory_mb / 1024 * 3600 * volumes.releases
    cold_start = environment.cold_start
    if isinstance(cold_start, SnapStart):
        amount = gb_seconds * max(hours, _SNAPSHOT_HOURS)
        return (priced(prices, "lambda_snapshot", "second snapshot in a release", amount),)
    if isinstance(cold_start, Provisioned):
        kept = cold_start.highest_minimum
        name = "second version provisioned in a release"
        return (priced(prices, "lambda_provisioned", name, gb_seconds * hours * kept),)
    return ()


def _packages(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Price the zips and artifacts of earlier versions, which nothing deletes.

    At most: a release without a change of the model or the compiler adds a zip, but no artifact.
    """
    if environment.function.package == "image":
        return ()
    stored = stored_zip(environment)
    earlier = _MONTHS_KEPT * volumes.releases
    zips = priced(prices, "storage", "zips of a year's releases", earlier * stored.zip_gb)
    if not stored.artifact_gb:
        return (zips,)
    uploaded, downloaded = (
        volumes.releases * stored.artifact_gb * _GB / part for part in (_UPLOADED, _DOWNLOADED)
    )
    if isinstance(environment.cold_start, Provisioned):
        downloaded *= environment.cold_start.maximum
    return (
        zips,
        priced(prices, "storage", "artifacts of a year's releases", earlier * stored.artifact_gb),
        priced(prices, "storage_write", "artifact, uploads", uploaded),
        priced(prices, "storage_read", "artifact, downloads", downloaded),
    )


def _front(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Price a REST API for all requests of the endpoint, its log and firewall.

    Not included: a web ACL of your own, the VPC endpoints of a private API, and data transfer.
    """
    front, requests = environment.front, volumes.requests
    if front is None:
        return ()
    gigabytes = requests * _ACCESS_LOG_BYTES / _GB
    items = [
        priced(prices, "rest_requests", "API, requests", requests),
        priced(prices, "log_ingestion", "API, access log, written", gigabytes),
        priced(prices, "log_storage", "API, access log, kept", gigabytes * _ACCESS_LOG_MONTHS),
    ]
    if front.firewall is not None and front.firewall.web_acl is None:
        items += [
            priced(prices, "firewall", "firewall", 1),
            priced(prices, "firewall_rule", "firewall, rules", _FIREWALL_RULES),
            priced(prices, "firewall_requests", "firewall, requests", requests),
        ]
    return tuple(items)


def _network(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Price the interface endpoints that callers and functions in a private network need.

    One of Lambda's API for callers that invoke, and one of S3 Vectors for an index and functions in
    a VPC. Other environments in the VPC may share them. Gateway endpoints and a function's network
    interfaces cost nothing. Not included: a NAT gateway in their place.
    """
    network = environment.network
    invoked = environment.callers.invoke
    searched = network is not None and environment.index is not None
    endpoints = invoked + searched
    if not endpoints:
        return ()
    zones = len(network.subnets) if network else _ZONES
    gigabytes = volumes.requests * _CALL_BYTES / _GB if invoked else 0.0
    if network is not None:
        gigabytes += _vector_gigabytes(environment, volumes)
    return (
        priced(prices, "interface_endpoint", "VPC endpoints", endpoints * zones * HOURS),
        priced(prices, "interface_endpoint_data", "VPC endpoints, data", gigabytes),
    )


def _batch(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Price batch jobs: the function, the executions and the requests to S3."""
    if environment.batch is None:
        return ()
    gigabytes = environment.batch.memory_mb / 1024
    texts = volumes.batch_texts
    shards = texts / _SHARD_TEXTS
    seconds = texts * volumes.core_seconds
    return (
        priced(prices, "lambda_duration", "batch, duration", seconds * gigabytes),
        priced(prices, "lambda_requests", "batch, requests", shards),
        priced(prices, "express_requests", "batch, executions", shards),
        priced(prices, "express_duration", "batch, their duration", seconds * _EXPRESS_GB),
        priced(prices, "storage_write", "batch, writes to S3", shards * _SHARD_WRITES),
        priced(prices, "storage_read", "batch, reads from S3", shards * _SHARD_READS),
    )


def _server(environment: Environment, prices: Prices, _: Volumes) -> tuple[LineItem, ...]:
    return server_items(environment, prices)


def _index(environment: Environment, prices: Prices, volumes: Volumes) -> tuple[LineItem, ...]:
    """Price the vectors of S3 Vectors: loaded once, kept for the month, and searched.

    A search is billed by the size of the index, at the price of its first tier.
    """
    if environment.index is None:
        return ()
    gigabytes = _vector_gigabytes(environment, volumes)
    searched = gigabytes * _GB * volumes.searches / _TB
    return (
        priced(prices, "vector_storage", "index, vectors", gigabytes),
        priced(prices, "vector_writes", "index, loading them", gigabytes),
        priced(prices, "vector_searches", "index, searches", volumes.searches),
        priced(prices, "vector_processing", "index, data searched", searched),
    )


def _vector_gigabytes(environment: Environment, volumes: Volumes) -> float:
    """Return the size of the vectors in the index, with their keys, texts and metadata."""
    if environment.index is None:
        return 0.0
    dimension = index_dimension(environment.index, environment.model)
    return volumes.vectors * (4 * dimension + _METADATA_BYTES) / _GB


#: Each prices one thing that an environment's file switches on. A new table of settings that costs
#: something adds a function here.
EXTRAS: tuple[Extra, ...] = (
    _logs,
    _metrics,
    _traces,
    _releases,
    _packages,
    _front,
    _network,
    _batch,
    _server,
    _index,
)
