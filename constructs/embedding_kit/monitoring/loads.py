"""The alarm of loads into a vector index, and their row of the dashboard."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.index_loading import IndexLoading
from embedding_kit.monitoring.alarm_definitions import AlarmDefinition
from embedding_kit.monitoring.alarms import make_alarm
from embedding_kit.monitoring.graphs import graph
from embedding_kit.settings.observability import RUNBOOK

__all__ = ["LoadAlarm", "load_widgets"]

_PERIOD = Duration.minutes(5)


class LoadAlarm(Construct):
    """An alarm on failed loads. It notifies the topic itself, and does not page.

    Attributes:
        alarm: The alarm.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        loading: IndexLoading,
        topic: sns.ITopic | None = None,
        runbook_url: str = RUNBOOK,
    ) -> None:
        """Create the alarm.

        Args:
            scope: The parent.
            id: The construct's id.
            loading: The loads.
            topic: A topic that the alarm notifies. Its key must let CloudWatch encrypt.
            runbook_url: The runbook's address, as in `AlarmSettings`.
        """
        super().__init__(scope, id)
        definition = AlarmDefinition(
            name="LoadFailed",
            essential=True,
            metric=loading.state_machine.metric_failed(statistic="Sum", period=_PERIOD),
            threshold=0,
            datapoints=1,
            periods=1,
            period_minutes=int(_PERIOD.to_minutes()),
            condition="Failed loads of the index above {:,g}",
            advice="The execution's error names the reason. Started again, the load continues",
        )
        self.alarm = make_alarm(self, definition, runbook_url)
        if topic:
            self.alarm.add_alarm_action(actions.SnsAction(topic))


def load_widgets(loading: IndexLoading) -> list[cloudwatch.IWidget]:
    """Return the row of the dashboard: loads and vectors."""
    machine = loading.state_machine
    return [
        graph(
            "Index: loads",
            machine.metric_started(statistic="Sum", period=_PERIOD, label="Started"),
            machine.metric_succeeded(statistic="Sum", period=_PERIOD, label="Succeeded"),
            machine.metric_failed(statistic="Sum", period=_PERIOD, label="Failed"),
            width=12,
        ),
        graph(
            "Index: vectors",
            _metric(loading, "LoadedVectors", "Loaded"),
            _metric(loading, "RejectedVectors", "Rejected"),
            width=12,
        ),
    ]


def _metric(loading: IndexLoading, name: str, label: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=loading.namespace,
        metric_name=name,
        dimensions_map={"FunctionName": loading.function.function_name},
        statistic="Sum",
        period=_PERIOD,
        label=label,
    )
