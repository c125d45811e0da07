"""The parts of a bill besides the requests: monitoring, storage, releases, API, network, batch."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from embedder.http.telemetry import UNITS, VERSION_UNITS
from embedding_kit.prices import HOURS, LineItem, Prices, priced
from embedding_kit.programs import contract
from embedding_kit.settings import Provisioned, SnapStart, artifact_in_s3
from embedding_kit.settings.ingest import SAMPLE
from embedding_kit.settings.package import LARGEST_ARTIFACT, artifact_bytes
from operations.cost.ways import Bill, Scenario
from operations.cost.workload import Month
from stacks.environment import EnvironmentSettings
from stacks.standing_cost import server_items

#: A resource of a template: its type and its properties.
Resource = Mapping[str, Any]
#: Of each item: the line of the price list, its name, and how much of it.
Amounts = Iterator[tuple[str, str, float]]
#: What an account has free in every month, by the unit of a price:
#: https://aws.amazon.com/cloudwatch/pricing/
FREE = {"alarm metric-month": 10, "metric-month": 10, "dashboard-month": 3}
#: A dashboard of more metrics is never free.
_FREE_METRICS = 50
#: An image with a model of up to 300 MB, as the registry stores it.
_IMAGE_GB = 0.5
#: The packages and the code of a zip, compressed.
_ZIP_GB = 0.026
#: Bytes of log of one request: the embedder's line and its record of metrics (about 1,450), the
#: platform's start and report (480), and 26 bytes of each of the four that CloudWatch adds.
LOG_BYTES = 2000
#: The embedder's in an hour with requests of one version, API and status (docs/api.md).
METRICS = 2 * len(UNITS) + len(VERSION_UNITS)
#: A snapshot is billed for three hours at least: https://aws.amazon.com/lambda/pricing/
_SNAPSHOT_HOURS = 3.0
#: A release before and after its shift: the new version is warmed and checked.
_RELEASE_HOURS = 0.25
#: Nothing expires in the bucket of zips and artifacts: a year of them is counted.
_MONTHS_KEPT = 12
#: A shard of a batch job has about so many texts. Two cents of requests for a million are left out.
_SHARD_TEXTS = 500
_EXPRESS_GB = 64 / 1024
#: Seconds of a small request to S3, the lower of AWS's figures: not measured.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
_S3_SECONDS = 0.1
#: Requests to S3 for an event of a document with up to 32 new chunks, and for one that is compared.
_EVENT_READS, _EVENT_WRITES, _COMPARED_READS = 4, 2, 2
#: Further reads for an event if tags are metadata: with each look at the object.
_EVENT_TAGS = 3
#: Of these, requests that wait at a time: with 0.1 s each, a step of 50 documents took 0.72 s.
_COMPARED_AT_A_TIME = 16
#: Requests to a queue for an event, and the polls of Lambda in an hour, five of 20 seconds each.
_EVENT_MESSAGES, _POLLS = 3, 5 * 3600 / 20
#: Documents of a group, chunks that a change embeds, and metrics of documents.
_GROUP_DOCUMENTS, _CHANGED_CHUNKS, _DOCUMENT_METRICS = 50, 3, 6
_NIGHTS = HOURS / 24
#: Of a run of the watch: searches besides the questions; reads from S3 for a vector of the sample,
#: at most (a list and an object of its document and of another one, and those of questions); reads
#: at a time; requests for lists of 100,000 objects, with the report; and metrics.
_WATCH_PROBES, _WATCH_READS, _WATCH_THREADS, _WATCH_LISTS, _WATCH_METRICS = 50, 5, 16, 101, 8
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
    customer's, NAT gateways, and the VPC endpoints of a private API and of a server.
    """
    bill = _Items(environment, resources, scenario, scenario.month)
    of_endpoint = (bill.monitoring(), bill.package(), bill.telemetry(), bill.releases())
    return (
        *_priced(prices, *of_endpoint, bill.api(), bill.network(), bill.batch()),
        *server_items(environment, prices),
        *_priced(prices, bill.index(), bill.documents(), bill.watch()),
    )


def free_items(items: Iterable[LineItem], resources: Sequence[Resource]) -> Bill:
    """Return what CloudWatch's free tier takes off a bill, if nothing else uses it."""
    free = dict(FREE)
    if any(map(_is_large, _of("CloudWatch::Dashboard", resources))):
        del free["dashboard-month"]
    found = []
    for item in items:
        amount = min(item.amount, free.get(item.unit, 0))
        if amount:
            found.append(LineItem(item.name, -amount, item.unit, -item.usd * amount / item.amount))
    return tuple(found)


def vector_gigabytes(vectors: float, dimension: int) -> float:
    """Return the size of vectors in an index, with keys, texts and metadata."""
    return vectors * (4 * dimension + _METADATA_BYTES) / _GB


def search_items(prices: Prices, gigabytes: float, searches: float) -> Bill:
    """Price searches of an index of a size."""
    return _priced(prices, _searched(gigabytes, searches))


def _searched(gigabytes: float, searches: float) -> Amounts:
    yield "vector_searches", "index, searches", searches
    yield "vector_processing", "index, data searched", gigabytes * searches / 1000


def _priced(prices: Prices, *parts: Amounts) -> Bill:
    return tuple(priced(prices, *amount) for part in parts for amount in part)


def copy_items(
    prices: Prices,
    *,
    documents: float,
    chunks: float,
    dimension: int,
    core_seconds: float,
    memory_mb: int,
) -> Bill:
    """Price what it costs once to bring documents of S3 into an empty index.

    There are no documents if the texts do not come from S3, but only chunks. `core_seconds` are
    those of one core for a chunk.
    """
    gigabytes, requests = memory_mb / 1024, documents * (_EVENT_READS + _EVENT_WRITES)
    waits = requests * _S3_SECONDS * gigabytes
    return (
        priced(prices, "lambda_duration", "embedding", chunks * core_seconds * gigabytes),
        priced(prices, "lambda_duration", "waiting for S3", waits),
        priced(prices, "storage_write", "writes to S3", documents * _EVENT_WRITES),
        priced(prices, "storage_read", "reads from S3", documents * _EVENT_READS),
        priced(prices, "vector_writes", "vectors", vector_gigabytes(chunks, dimension)),
    )


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

    def package(self) -> Amounts:
        """Count the image; or the zips and artifacts of a year's releases, which nothing deletes.

        At most: in S3, a release without a change of the model or the compiler adds no artifact.
        """
        function, size = self.environment.function, artifact_bytes(self.environment.model)
        if function.package == "image":
            yield "image_storage", "image", len(self.environment.models) * _IMAGE_GB
            return
        in_s3 = artifact_in_s3(self.environment.model, function)
        unknown = _IMAGE_GB * _GB if in_s3 else LARGEST_ARTIFACT
        stored = _ZIP_GB + (unknown if size is None else size) / _GB
        yield "storage", "zip and artifact", stored
        earlier = _MONTHS_KEPT * self.month.releases * stored
        yield "storage", "those of a year's releases", earlier

    def telemetry(self) -> Amounts:
        """Count logs, custom metrics, and the traces of requests, but not those of batch jobs."""
        gigabytes = self.month.requests * LOG_BYTES / _GB
        months = self.environment.function.log_retention_days / 30
        yield "log_ingestion", "logs, written", gigabytes
        yield "log_storage", "logs, kept", gigabytes * months
        yield "metric", "metrics", self._metrics() if self.month.requests else 0
        if self.environment.observability.tracing:
            yield "traces", "traces of X-Ray", self.month.sampled

    def releases(self) -> Amounts:
        """Count the second version while traffic shifts to it."""
        hours = self.environment.release.shift.total_seconds() / 3600 + _RELEASE_HOURS
        gb_seconds = self.environment.function.memory_mb / 1024 * 3600 * self.month.releases
        cold_start = self.environment.cold_start
        if isinstance(cold_start, SnapStart):
            amount = gb_seconds * max(hours, _SNAPSHOT_HOURS)
            yield "lambda_snapshot", "second snapshot in a release", amount
        if isinstance(cold_start, Provisioned):
            amount = gb_seconds * hours * cold_start.highest_minimum
            yield "lambda_provisioned", "second version provisioned in a release", amount

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
        parts = ("S3Vectors::Index", "SQS::Queue") if network else ()
        endpoints = invoked + sum(bool(self._count(part)) for part in parts)
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
        gigabytes, searches = self._vector_gigabytes(), self.month.searches
        searches = self.month.requests if searches is None else searches
        yield "vector_storage", "index, vectors", gigabytes
        yield "vector_writes", "index, loading them", gigabytes
        yield from _searched(self._vector_gigabytes(indexes=1), searches)

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
        event_reads = _EVENT_READS + (_EVENT_TAGS if tags else 0)
        compared_reads = _COMPARED_READS + int(tags)
        reads = changes * event_reads + compared * compared_reads
        writes, groups = changes * _EVENT_WRITES, compared / _GROUP_DOCUMENTS
        comparing = compared * compared_reads * _S3_SECONDS / _COMPARED_AT_A_TIME
        waits = changes * (event_reads + _EVENT_WRITES) * _S3_SECONDS + comparing
        embeds = chunks * len(memory) * self.scenario.core_seconds
        messages = changes * _EVENT_MESSAGES + len(memory) * _POLLS * HOURS
        yield "events", "documents, events", events
        yield "messages", "documents, queue", messages
        yield "lambda_duration", "documents, embedding", embeds * memory_mb / 1024
        yield "lambda_duration", "documents, waiting for S3", waits * memory_mb / 1024
        yield "lambda_requests", "documents, requests", changes + groups
        yield "express_requests", "documents, executions", groups
        yield "express_duration", "documents, their duration", comparing * _EXPRESS_GB
        yield "storage_write", "documents, writes to S3", writes
        yield "storage_read", "documents, reads from S3", reads
        yield "vector_writes", "documents, vectors", self._vector_gigabytes(chunks)
        yield "metric", "documents, metrics", len(memory) * _DOCUMENT_METRICS

    def watch(self) -> Amounts:
        """Count the daily run of the watch. AWS lists no price for reading and listing vectors."""
        watch = self.environment.watch
        if watch is None:
            return
        questions = self.month.questions if watch.questions else 0
        searches = _NIGHTS * (questions + _WATCH_PROBES)
        embeds = _NIGHTS * (SAMPLE + questions) * self.scenario.core_seconds
        reads = _NIGHTS * SAMPLE * _WATCH_READS
        seconds = embeds + reads * _S3_SECONDS / _WATCH_THREADS
        processed = self._vector_gigabytes(indexes=1) * searches / 1000
        (memory_mb,) = self._memory_mb("jobs.watch.handler.handler")
        yield "lambda_duration", "watch, duration", seconds * memory_mb / 1024
        yield "storage_read", "watch, reads from S3", reads
        yield "storage_write", "watch, lists of S3", _NIGHTS * _WATCH_LISTS
        yield "vector_searches", "watch, searches", searches
        yield "vector_processing", "watch, data searched", processed
        # A metric is billed in hours with a value.
        yield "metric", "watch, metrics", _WATCH_METRICS / 24

    def _metrics(self) -> int:
        """Count the embedder's metrics, and those of the platform's records."""
        filters = _of("Logs::MetricFilter", self.resources)
        return METRICS + len(
            {
                metric["MetricName"]
                for each in filters
                if '"platform.' in each["FilterPattern"]
                for metric in each["MetricTransformations"]
            }
        )

    def _memory_mb(self, handler: str) -> list[int]:
        functions = _of("Lambda::Function", self.resources)
        found = [
            each for each in functions if handler in each.get("ImageConfig", {}).get("Command", [])
        ]
        return [int(each["MemorySize"]) for each in found]

    def _vector_gigabytes(self, count: float | None = None, *, indexes: int | None = None) -> float:
        """Return the size of vectors, by default all of all indexes, with keys, texts, metadata.

        The index that is searched is the first one.
        """
        counted = _of("S3Vectors::Index", self.resources)[:indexes]
        vectors = self.month.vectors if count is None else count
        return sum(vector_gigabytes(vectors, int(index["Dimension"])) for index in counted)


def _of(kind: str, resources: Sequence[Resource]) -> list[Mapping[str, Any]]:
    return [resource["Properties"] for resource in resources if resource["Type"] == f"AWS::{kind}"]


def _is_large(dashboard: Mapping[str, Any]) -> bool:
    _, parts = dashboard["DashboardBody"]["Fn::Join"]
    body = json.loads("".join(part if isinstance(part, str) else "-" for part in parts))
    shown = [
        metric
        for widget in body["widgets"]
        for metric in widget["properties"].get("metrics", [])
        if isinstance(metric[0], str)  # An expression begins with its options.
    ]
    return len(shown) > _FREE_METRICS
