"""The alarms of a batch, and its row of the dashboard."""

from collections.abc import Iterator

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.batch import EmbeddingBatch
from embedding_kit.monitoring.alarm_definitions import AlarmDefinition
from embedding_kit.monitoring.alarms import NotifyingAlarms
from embedding_kit.monitoring.cost import cost_per_million_rows, list_prices
from embedding_kit.monitoring.graphs import two_axis_graph
from embedding_kit.settings.observability import RUNBOOK, Watch

__all__ = ["BatchAlarms", "batch_widgets"]

#: Shards take half a minute, so shorter periods would have gaps.
_PERIOD = Duration.minutes(5)
#: Above it a job fails, unless it says otherwise.
_REJECTED_PERCENT = 1


class BatchAlarms(NotifyingAlarms):
    """Alarms on a batch. Each notifies the topic itself; none pages.

    Attributes:
        alarms: Each alarm by its name.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        batch: EmbeddingBatch,
        topic: sns.ITopic | None = None,
        runbook_url: str = RUNBOOK,
        watch: Watch = "full",
    ) -> None:
        """Create the alarms.

        Args:
            scope: The parent.
            id: The construct's id.
            batch: The batch.
            topic: A topic that all alarms notify. Its key must let CloudWatch encrypt.
            runbook_url: The runbook's address, as in `AlarmSettings`.
            watch: Whether there are only the essential alarms.
        """
        super().__init__(
            scope,
            id,
            definitions=_definitions(batch),
            topic=topic,
            runbook_url=runbook_url,
            watch=watch,
        )


def batch_widgets(batch: EmbeddingBatch, alarms: BatchAlarms) -> list[cloudwatch.IWidget]:
    """Return the rows of the dashboard: jobs, rows, the function's load, throughput and cost."""
    machine, function = batch.state_machine, batch.function
    rows = _metric(batch, "Rows", "Embedded")
    cost = cost_per_million_rows(
        rows=rows,
        duration=function.metric_duration(statistic="Sum", period=_PERIOD),
        requests=function.metric_invocations(statistic="Sum", period=_PERIOD),
        memory_mb=batch.settings.memory_mb,
        prices=list_prices(Stack.of(batch).region),
    )
    throughput = cloudwatch.MathExpression(
        expression="rows / PERIOD(rows)",
        using_metrics={"rows": rows},
        period=_PERIOD,
        label="Rows a second",
    )
    return [
        cloudwatch.AlarmStatusWidget(
            title="Batch: alarms", alarms=list(alarms.alarms.values()), width=24, height=2
        ),
        two_axis_graph(
            "Batch: jobs",
            machine.metric_started(statistic="Sum", period=_PERIOD, label="Started"),
            machine.metric_succeeded(statistic="Sum", period=_PERIOD, label="Succeeded"),
            machine.metric_failed(statistic="Sum", period=_PERIOD, label="Failed"),
        ),
        two_axis_graph(
            "Batch: rows",
            rows,
            _metric(batch, "RejectedRows", "Rejected"),
            right=[_metric(batch, "Tokens", "Tokens")],
        ),
        two_axis_graph(
            "Batch: shards at a time",
            function.metric(
                "ConcurrentExecutions", statistic="Maximum", period=_PERIOD, label="Running"
            ),
            function.metric_throttles(statistic="Sum", period=_PERIOD, label="Throttled"),
            right=[
                function.metric_duration(statistic="p99", period=_PERIOD, label="Duration, p99")
            ],
        ),
        two_axis_graph("Batch: rows a second", throughput, width=12),
        two_axis_graph("Batch: US dollars per million rows, at list prices", cost, width=12),
    ]


def _definitions(batch: EmbeddingBatch) -> Iterator[AlarmDefinition]:
    minutes = int(_PERIOD.to_minutes())
    yield AlarmDefinition(
        name="BatchFailed",
        essential=True,
        # Only of jobs: the metrics of the map's children have another dimension, the ARN of the
        # state machine with the map's label.
        # https://docs.aws.amazon.com/step-functions/latest/dg/concepts-examine-map-run.html
        metric=batch.state_machine.metric_failed(statistic="Sum", period=_PERIOD),
        threshold=0,
        datapoints=1,
        periods=1,
        period_minutes=minutes,
        condition="Failed jobs above {:,g}",
        advice="The execution's error names the reason. Started again, the job continues",
    )
    yield AlarmDefinition(
        name="BatchThrottled",
        essential=True,
        metric=batch.function.metric_throttles(statistic="Sum", period=_PERIOD),
        threshold=0,
        datapoints=3,
        periods=3,
        period_minutes=minutes,
        condition="Throttled shards above {:,g}",
        advice="They are tried again, but the job takes longer: other functions use the "
        "concurrency, or max_concurrency is too high",
    )
    yield AlarmDefinition(
        name="BatchRejected",
        metric=cloudwatch.MathExpression(
            expression="IF(rows + rejected > 0, 100 * rejected / (rows + rejected), 0)",
            using_metrics={
                "rows": _metric(batch, "Rows"),
                "rejected": _metric(batch, "RejectedRows"),
            },
            period=_PERIOD,
            label="Rejected rows, percent",
        ),
        threshold=_REJECTED_PERCENT,
        datapoints=1,
        periods=1,
        period_minutes=minutes,
        condition="Rejected rows above {:,g}%",
        advice="Likely another field than the one with the text, or texts over the model's limit",
    )


def _metric(batch: EmbeddingBatch, name: str, label: str | None = None) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=batch.namespace,
        metric_name=name,
        dimensions_map={"FunctionName": batch.function.function_name},
        statistic="Sum",
        period=_PERIOD,
        label=label,
    )
