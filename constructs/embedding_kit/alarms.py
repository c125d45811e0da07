"""The endpoint's alarms, and the one among them that wakes somebody."""

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.thresholds import RUNBOOK
from embedding_kit.watches import Watch, watches

__all__ = ["EndpointAlarms"]


class EndpointAlarms(Construct):
    """Alarms on an endpoint.

    What wakes somebody goes through one composite alarm, so that a bad night is one page and not
    ten; the rest tells the topic by itself. Each description says why it rings and where the
    runbook says what to do.

    Attributes:
        alarms: Each alarm by its name.
        page: The composite.
    """

    def __init__(
        self, scope: Construct, id: str, *, endpoint: EmbeddingEndpoint, topic: sns.ITopic
    ) -> None:
        """Make the alarms.

        Args:
            scope: The parent.
            id: The construct's id.
            endpoint: What is watched, with its thresholds.
            topic: Where alarms are told. Its key must let CloudWatch encrypt.
        """
        super().__init__(scope, id)
        action = actions.SnsAction(topic)
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        paging = []
        for watch in watches(endpoint.metrics, endpoint.thresholds, endpoint.cold_start):
            alarm = self._alarm(watch)
            self.alarms[watch.name] = alarm
            if watch.page:
                paging.append(alarm)
            else:
                alarm.add_alarm_action(action)
        self.page = cloudwatch.CompositeAlarm(
            self,
            "Page",
            alarm_rule=cloudwatch.AlarmRule.any_of(*paging),
            alarm_description="Callers are not served as they should be: "
            + ", ".join(watch_name for watch_name, alarm in self.alarms.items() if alarm in paging)
            + f". Runbook: {RUNBOOK}#page",
        )
        self.page.add_alarm_action(action)
        self.page.add_ok_action(action)

    def _alarm(self, watch: Watch) -> cloudwatch.Alarm:
        return cloudwatch.Alarm(
            self,
            watch.name,
            metric=watch.metric,
            threshold=watch.threshold,
            comparison_operator=watch.comparison,
            evaluation_periods=watch.last,
            datapoints_to_alarm=watch.of,
            treat_missing_data=watch.missing,
            alarm_description=f"{watch.reason}. Runbook: {RUNBOOK}#{watch.name.lower()}",
        )
