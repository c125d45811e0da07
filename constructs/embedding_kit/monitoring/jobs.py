"""The alarms and dashboard rows of batch jobs, loads into an index, and documents."""

from collections.abc import Iterator
from functools import partial

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs

from embedding_kit.distributed_map import DistributedJobs
from embedding_kit.endpoint_metrics import computed, metric
from embedding_kit.ingestion import Ingestion
from embedding_kit.jobs import EmbeddingBatch, IndexLoading
from embedding_kit.monitoring.alarm_definitions import AlarmDefinition
from embedding_kit.monitoring.dashboard import cost_per_million_rows, graph, list_prices

#: Shards take half a minute, so shorter periods would have gaps.
_MINUTES = 5
_PERIOD = Duration.minutes(_MINUTES)
#: Alarm on one failure in a period; each alarm may say otherwise.
_definition = partial(
    AlarmDefinition, threshold=0, essential=True, every=1, period_minutes=_MINUTES
)
#: A message that failed comes again after 15 minutes, and a run waits up to 10 for another one.
_OLDEST_SECONDS = 3600
#: Above it a job fails, unless it says otherwise.
_REJECTED_PERCENT = 1
#: Below it, golden questions do not find their documents.
_FOUND_PERCENT = 90


def batch_widgets(batch: EmbeddingBatch) -> list[cloudwatch.IWidget]:
    """Return the rows of the dashboard: jobs, rows, the function's load, throughput and cost."""
    function = batch.function
    rows = _metric(batch, "Rows", "Embedded")
    cost = cost_per_million_rows(
        rows=rows,
        duration=function.metric_duration(statistic="Sum", period=_PERIOD),
        requests=function.metric_invocations(statistic="Sum", period=_PERIOD),
        memory_mb=batch.settings.memory_mb,
        prices=list_prices(Stack.of(batch).region),
    )
    throughput = computed("rows / PERIOD(rows)", {"rows": rows}, "Rows a second", period=_PERIOD)
    return [
        graph("Batch: jobs", *_executions(batch)),
        graph(
            "Batch: rows",
            rows,
            _metric(batch, "RejectedRows", "Rejected"),
            right=[_metric(batch, "Tokens", "Tokens")],
        ),
        graph(
            "Batch: shards at a time",
            function.metric(
                "ConcurrentExecutions", statistic="Maximum", period=_PERIOD, label="Running"
            ),
            function.metric_throttles(statistic="Sum", period=_PERIOD, label="Throttled"),
            right=[
                function.metric_duration(statistic="p99", period=_PERIOD, label="Duration, p99")
            ],
        ),
        graph("Batch: rows a second", throughput, width=12),
        graph("Batch: US dollars per million rows, at list prices", cost, width=12),
    ]


def batch_alarms(batch: EmbeddingBatch) -> Iterator[AlarmDefinition]:
    """List the alarms of batch jobs."""
    yield _definition(
        name="BatchFailed",
        # Only of jobs: the metrics of the map's children have another dimension, the ARN of the
        # state machine with the map's label.
        # https://docs.aws.amazon.com/step-functions/latest/dg/concepts-examine-map-run.html
        metric=batch.state_machine.metric_failed(statistic="Sum", period=_PERIOD),
        condition="Failed jobs above {:,g}",
        advice="The execution's error names the reason. Started again, the job continues",
    )
    yield _definition(
        name="BatchThrottled",
        metric=batch.function.metric_throttles(statistic="Sum", period=_PERIOD),
        every=3,
        condition="Throttled shards above {:,g}",
        advice="They are tried again, but the job takes longer: other functions use the "
        "concurrency, or max_concurrency is too high",
    )
    yield _definition(
        name="BatchRejected",
        essential=False,
        metric=computed(
            "IF(rows + rejected > 0, 100 * rejected / (rows + rejected), 0)",
            {"rows": _metric(batch, "Rows"), "rejected": _metric(batch, "RejectedRows")},
            "Rejected rows, percent",
            period=_PERIOD,
        ),
        threshold=_REJECTED_PERCENT,
        condition="Rejected rows above {:,g}%",
        advice="Likely another field than the one with the text, or texts over the model's limit",
    )


def load_widgets(loading: IndexLoading) -> list[cloudwatch.IWidget]:
    """Return the row of the dashboard: loads and vectors."""
    return [
        graph("Index: loads", *_executions(loading), width=12),
        graph(
            "Index: vectors",
            _metric(loading, "LoadedVectors", "Loaded"),
            _metric(loading, "RejectedVectors", "Rejected"),
            width=12,
        ),
    ]


def load_alarms(loading: IndexLoading) -> Iterator[AlarmDefinition]:
    """List the alarms of loads."""
    yield _definition(
        name="LoadFailed",
        metric=loading.state_machine.metric_failed(statistic="Sum", period=_PERIOD),
        condition="Failed loads of the index above {:,g}",
        advice="The execution's error names the reason. Started again, the load continues",
    )


def ingest_widgets(ingestion: Ingestion, prefix: str) -> list[cloudwatch.IWidget]:
    """Return the rows of the dashboard: documents, chunks, what waits, delays, and the sample.

    `prefix` begins the titles.
    """
    delay = _metric(ingestion, "SearchableDelay", "p50")
    return [
        graph(
            f"{prefix}Documents: changed by events, repaired each night",
            _metric(ingestion, "ChangedDocuments", "Changed"),
            _metric(ingestion, "RefusedDocuments", "Refused"),
            _metric(ingestion, "RepairedDocuments", "Repaired"),
            right=[
                _metric(ingestion, "EmbeddedChunks", "Chunks embedded"),
                _metric(ingestion, "DeletedChunks", "Chunks deleted"),
            ],
        ),
        graph(
            f"{prefix}Documents: messages",
            _waiting(ingestion.queue, "Waiting"),
            _waiting(ingestion.dead_letters, "Dead letters"),
            _metric(ingestion, "UnsentLetters", "Letters not sent"),
            right=[_oldest(ingestion)],
        ),
        graph(
            f"{prefix}Documents: seconds from event to index",
            delay.with_(statistic="p50"),
            delay.with_(statistic="p99", label="p99"),
        ),
        graph(f"{prefix}Search: wrong vectors of the sample", *_wrong(ingestion).values()),
        *(
            [
                graph(
                    f"{prefix}Search: golden questions that find their document, percent",
                    _metric(ingestion, "GoldenFound", "Golden questions"),
                )
            ]
            if ingestion.settings.questions
            else []
        ),
    ]


def ingest_alarms(ingestion: Ingestion) -> Iterator[AlarmDefinition]:
    """List the alarms of documents."""
    yield _definition(
        name="DocumentsLate",
        metric=_oldest(ingestion),
        threshold=_OLDEST_SECONDS,
        condition="The oldest event of a document waits for more than {:,g} s",
        advice="The index has old content, or that of deleted documents: the function fails, or "
        "more changes than it can embed",
    )
    yield _definition(
        name="DocumentsRefused",
        metric=_waiting(ingestion.dead_letters),
        condition="Dead letters above {:,g}",
        advice="They name documents that cannot be read, with the reasons, or are events that "
        "failed five times",
    )
    yield _definition(
        name="ReconciliationFailed",
        metric=ingestion.state_machine.metric_failed(statistic="Sum", period=_PERIOD),
        condition="Failed comparisons of documents and index above {:,g}",
        advice="The execution's error names the reason. The next one repairs what it left",
    )
    yield _definition(
        name="DocumentsRepaired",
        essential=False,
        metric=_metric(ingestion, "RepairedDocuments"),
        condition="Documents that the nightly comparison repaired above {:,g}",
        advice="After the first load, events are lost or fail: the index was stale until then",
    )
    # The checks of the sample last until the next night.
    yield _definition(
        name="WrongVectors",
        metric=computed(
            "missing + foreign + metadata", _wrong(ingestion), "Wrong vectors", period=_PERIOD
        ),
        missing=cloudwatch.TreatMissingData.IGNORE,
        condition="Wrong vectors in the sample above {:,g}",
        advice="They are missing, of another model, or with other metadata",
    )
    if ingestion.settings.questions:
        yield _definition(
            name="GoldenQuestions",
            metric=_metric(ingestion, "GoldenFound"),
            threshold=_FOUND_PERCENT,
            below=True,
            missing=cloudwatch.TreatMissingData.IGNORE,
            condition="Golden questions that find their document below {:,g}%",
            advice="Documents are gone or changed, or others are nearer",
        )


def _wrong(ingestion: Ingestion) -> dict[str, cloudwatch.Metric]:
    return {
        "missing": _metric(ingestion, "MissingVectors", "Missing"),
        "foreign": _metric(ingestion, "ForeignVectors", "Of another model"),
        "metadata": _metric(ingestion, "WrongMetadata", "Other metadata"),
    }


def _oldest(ingestion: Ingestion) -> cloudwatch.Metric:
    return ingestion.queue.metric_approximate_age_of_oldest_message(
        statistic="Maximum", period=_PERIOD, label="Oldest, s"
    )


def _waiting(queue: sqs.IQueue, label: str | None = None) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(
        statistic="Maximum", period=_PERIOD, label=label
    )


def _executions(jobs: DistributedJobs) -> list[cloudwatch.Metric]:
    machine = jobs.state_machine
    return [
        machine.metric_started(statistic="Sum", period=_PERIOD, label="Started"),
        machine.metric_succeeded(statistic="Sum", period=_PERIOD, label="Succeeded"),
        machine.metric_failed(statistic="Sum", period=_PERIOD, label="Failed"),
    ]


def _metric(jobs: DistributedJobs, name: str, label: str | None = None) -> cloudwatch.Metric:
    """Return a metric that the function of the jobs writes."""
    dimensions = {"FunctionName": jobs.function.function_name}
    return metric(jobs.namespace, name, "Sum", label, dimensions).with_(period=_PERIOD)
