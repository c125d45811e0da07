"""The parts of a bill besides the requests: monitoring, logs, API, network, batch, index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from embedder.http.telemetry import UNITS, VERSION_UNITS
from embedding_kit.prices import HOURS, Prices, priced
from embedding_kit.programs import contract
from operations.cost.alternatives import Bill, Scenario
from operations.cost.workload import Month
from stacks.environment import EnvironmentSettings
from stacks.standing_cost import server_items

#: A resource of a template: its type and its properties.
Resource = Mapping[str, Any]
#: Items: the line of the price list, the item's name, and how much of it.
Amounts = Iterator[tuple[str, str, float]]
#: An image with a model of up to 300 MB, as the registry stores it.
_IMAGE_GB = 0.5
#: Bytes of log of one request: the embedder's line and its record of metrics (about 1,450), the
#: platform's start and report (480), and 26 bytes of each of the four that CloudWatch adds.
LOG_BYTES = 2000
#: The embedder's metrics in an hour with requests of one version, API and status (docs/api.md).
METRICS = 2 * len(UNITS) + len(VERSION_UNITS)
#: A shard of a batch job has about so many texts. Two cents of requests for a million are left out.
_SHARD_TEXTS = 500
_NIGHTS = HOURS / 24
_EXPRESS_GB = 64 / 1024
#: Seconds of a small request to S3, the lower of AWS's figures: not measured.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
_S3_SECONDS = 0.1
#: Requests to S3 for an event of a document with up to 32 new chunks, and for one that is compared.
_EVENT_READS, _EVENT_WRITES, _COMPARED_READS = 4, 2, 2
#: Further reads for an event if tags are metadata: with each look at the object.
_EVENT_TAGS = 3
#: Requests to S3 that a comparison waits for at a time: a step of 50 documents took 0.72 s.
_COMPARED_AT_A_TIME = 16
#: Requests to a queue for an event, and the polls of Lambda in an hour, five of 20 seconds each.
_EVENT_MESSAGES, _POLLS = 3, 5 * 3600 / 20
#: Documents of a group, chunks that a change embeds, and metrics of documents.
_GROUP_DOCUMENTS, _CHANGED_CHUNKS, _DOCUMENT_METRICS = 50, 3, 6
#: Bytes of a line of the access log, and months that it is kept.
_ACCESS_LOG_BYTES, _ACCESS_LOG_MONTHS = 600, 3
#: Bytes of a stored vector besides its numbers: its key, and its text and metadata.
_METADATA_BYTES = 1000
#: Availability Zones of an interface endpoint, where the subnets are not known.
_ZONES = 2
_GB = 1e9


def added_items(
    environment: EnvironmentSettings,
    resources: Sequence[Resource],
    prices: Prices,
    scenario: Scenario,
) -> Bill:
    """Return what the environment's bill has besides its function.

    What it has is counted in its templates. Not included: data transfer, a key or web ACL of the
    customer's, NAT gateways, the VPC endpoints of a private API and of a server, free tiers; and
    cents: zips, second versions during a release, the nightly checks of an index.
    """
    bill = _Items(environment, resources, scenario, scenario.month)
    of_endpoint = (bill.monitoring(), bill.image(), bill.telemetry(), bill.api(), bill.network())
    return (
        *_priced(prices, *of_endpoint, bill.batch()),
        *server_items(environment, prices),
        *_priced(prices, bill.index(), bill.documents()),
    )


def _priced(prices: Prices, *parts: Amounts) -> Bill:
    return tuple(priced(prices, *amounts) for amounts in chain(*parts))


@dataclass(frozen=True, slots=True)
class _Items:
    """Each method counts one part of the bill. A new thing that costs something adds one."""

    environment: EnvironmentSettings
    resources: Sequence[Resource]
    scenario: Scenario
    month: Month

    def _count(self, kind: str) -> int:
        return len(_of(kind, self.resources))

    def monitoring(self) -> Amounts:
        """Count alarms, the dashboard and keys. A customer's key is billed where it was created."""
        # An alarm on one metric names it directly. Each metric that an alarm reads is billed, and
        # so are the two bounds of an anomaly's band: https://aws.amazon.com/cloudwatch/pricing/
        metrics = sum(
            (sum("MetricStat" in metric for metric in alarm.get("Metrics", [])) or 1)
            + 2 * ("ThresholdMetricId" in alarm)
            for alarm in _of("CloudWatch::Alarm", self.resources)
        )
        counted = (
            ("alarm", "CloudWatch alarms, by metrics", metrics),
            ("composite_alarm", "composite alarm", self._count("CloudWatch::CompositeAlarm")),
            ("dashboard", "dashboard", self._count("CloudWatch::Dashboard")),
            ("key", "SNS topic's KMS key", self._count("KMS::Key")),
        )
        yield from (item for item in counted if item[2])

    def image(self) -> Amounts:
        """Count an image for each model."""
        if self.environment.function.package == "image":
            yield "image_storage", "image", len(self.environment.models) * _IMAGE_GB

    def telemetry(self) -> Amounts:
        """Count logs, custom metrics, and the traces of requests, but not those of batch jobs."""
        gigabytes = self.month.requests * LOG_BYTES / _GB
        months = self.environment.function.log_retention_days / 30
        yield "log_ingestion", "logs, written", gigabytes
        yield "log_storage", "logs, kept", gigabytes * months
        yield "metric", "metrics", self._metrics() if self.month.requests else 0
        if self.environment.observability.tracing:
            yield "traces", "traces of X-Ray", self.month.sampled

    def api(self) -> Amounts:
        """Count a REST API for all requests of the endpoint, its log and firewall."""
        if not self._count("ApiGateway::RestApi"):
            return
        requests = self.month.requests
        gigabytes = requests * _ACCESS_LOG_BYTES / _GB
        yield "rest_requests", "API, requests", requests
        yield "log_ingestion", "API, access log, written", gigabytes
        yield "log_storage", "API, access log, kept", gigabytes * _ACCESS_LOG_MONTHS
        for firewall in _of("WAFv2::WebACL", self.resources):
            yield "firewall", "firewall", 1
            yield "firewall_rule", "firewall, rules", len(firewall["Rules"])
            yield "firewall_requests", "firewall, requests", requests

    def network(self) -> Amounts:
        """Count the interface endpoints that callers and functions in a private network need.

        One of Lambda's API for callers that invoke, and for functions in a VPC one of S3 Vectors
        with an index, and one of SQS with documents. They are in no template: other environments in
        the VPC may share them. Gateway endpoints and a function's network interfaces cost nothing,
        data next to nothing.
        """
        network, invoked = self.environment.network, self.environment.callers.invoke
        resource_types = ("S3Vectors::Index", "SQS::Queue") if network else ()
        endpoints = invoked + sum(
            bool(self._count(resource_type)) for resource_type in resource_types
        )
        if endpoints:
            zones = len(network.subnets) if network else _ZONES
            yield "interface_endpoint", "VPC endpoints", endpoints * zones * HOURS

    def batch(self) -> Amounts:
        """Count batch jobs: the function and the executions."""
        if self.environment.batch is None:
            return
        texts = self.month.batch_texts
        shards, seconds = texts / _SHARD_TEXTS, texts * self.scenario.core_seconds
        gb_seconds = seconds * self.environment.batch.memory_mb / 1024
        yield "lambda_duration", "batch, duration", gb_seconds
        yield "express_requests", "batch, executions", shards
        yield "express_duration", "batch, their duration", seconds * _EXPRESS_GB

    def index(self) -> Amounts:
        """Count the vectors of S3 Vectors: loaded once, kept for the month, and searched.

        A search is billed by the size of the index, at the price of its first tier.
        """
        if not self._count("S3Vectors::Index"):
            return
        vectors, searches = self.month.vectors, self.month.searches
        searches = self.month.requests if searches is None else searches
        processed = searches * self._gigabytes(vectors, indexes=1) / 1000
        yield "vector_storage", "index, vectors", self._gigabytes(vectors)
        yield "vector_writes", "index, loading them", self._gigabytes(vectors)
        yield "vector_searches", "index, searches", searches
        yield "vector_processing", "index, data searched", processed

    def documents(self) -> Amounts:
        """Count the documents of an index: events, chunks, and the comparison each night.

        With a second model, each of two functions does all of it, in the times of the first model.
        """
        if self.environment.ingest is None:
            return
        memory = self._memory_mb(contract().handlers["ingest"])
        events, memory_mb = self.month.changes, sum(memory) / len(memory)
        changes = events * len(memory)
        compared = self.month.documents * _NIGHTS * len(memory)
        chunks = self.month.chunks
        chunks = events * _CHANGED_CHUNKS if chunks is None else chunks
        tags = self.environment.ingest.tags
        event_reads = changes * (_EVENT_READS + (_EVENT_TAGS if tags else 0))
        compared_reads = compared * (_COMPARED_READS + int(tags))
        writes = changes * _EVENT_WRITES
        waits = (event_reads + writes + compared_reads / _COMPARED_AT_A_TIME) * _S3_SECONDS
        embeds = chunks * len(memory) * self.scenario.core_seconds
        messages = changes * _EVENT_MESSAGES + len(memory) * _POLLS * HOURS
        yield "events", "documents, events", events
        yield "messages", "documents, queue", messages
        yield "lambda_duration", "documents, embedding", embeds * memory_mb / 1024
        yield "lambda_duration", "documents, waiting for S3", waits * memory_mb / 1024
        yield "express_requests", "documents, executions", compared / _GROUP_DOCUMENTS
        yield "storage_write", "documents, writes to S3", writes
        yield "storage_read", "documents, reads from S3", event_reads + compared_reads
        yield "vector_writes", "documents, vectors", self._gigabytes(chunks)
        yield "metric", "documents, metrics", len(memory) * _DOCUMENT_METRICS

    def _metrics(self) -> int:
        """Count the embedder's metrics, and those of the platform's records."""
        filters = _of("Logs::MetricFilter", self.resources)
        return METRICS + len(
            {
                metric["MetricName"]
                for log_filter in filters
                if '"platform.' in log_filter["FilterPattern"]
                for metric in log_filter["MetricTransformations"]
            }
        )

    def _memory_mb(self, handler: str) -> list[int]:
        return [
            int(function["MemorySize"])
            for function in _of("Lambda::Function", self.resources)
            if handler in function.get("ImageConfig", {}).get("Command", [])
        ]

    def _gigabytes(self, vectors: float, *, indexes: int | None = None) -> float:
        """Return the size of vectors in all indexes, with keys, texts and metadata.

        The index that is searched is the first one.
        """
        counted = _of("S3Vectors::Index", self.resources)[:indexes]
        bytes_each = (4 * int(index["Dimension"]) + _METADATA_BYTES for index in counted)
        return vectors * sum(bytes_each) / _GB


def _of(kind: str, resources: Sequence[Resource]) -> list[Mapping[str, Any]]:
    return [resource["Properties"] for resource in resources if resource["Type"] == f"AWS::{kind}"]
