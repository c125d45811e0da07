"""The endpoint's alarms, and the composite alarm that pages."""

from collections.abc import Callable, Sequence
from functools import partial

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.monitoring.alarm_definitions import (
    AlarmDefinition,
    alarm_definitions,
    watched,
    with_warnings,
)
from embedding_kit.settings import Watch

_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_ABOVE_BAND = cloudwatch.ComparisonOperator.GREATER_THAN_UPPER_THRESHOLD
_OUTSIDE_BAND = cloudwatch.ComparisonOperator.LESS_THAN_LOWER_OR_GREATER_THAN_UPPER_THRESHOLD


class EndpointAlarms(Construct):
    """Alarms on an endpoint.

    The alarms that page do so through one composite alarm, so that one incident sends one page.
    Each other alarm notifies the topic itself. Each description states the condition, a likely
    cause and the runbook's section.

    Args:
        endpoint: The endpoint, with its alarm settings.
        topic: A topic that all alarms notify. Its key must let CloudWatch encrypt.
        page_actions: Further actions of the composite alarm, on ALARM and on OK.
        other_actions: Further actions of each alarm that does not page, on ALARM.
        watch: Whether there are only the essential alarms.
        disabled: Names of alarms to leave out.

    Attributes:
        alarms: Each alarm by its name.
        thresholds: Each alarm's threshold by its name, in the unit of its metric.
        page: The composite alarm; None if nothing is notified.

    Raises:
        ValueError: `disabled` has a name that no alarm of this endpoint has.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint: EmbeddingEndpoint,
        topic: sns.ITopic | None = None,
        page_actions: Sequence[cloudwatch.IAlarmAction] = (),
        other_actions: Sequence[cloudwatch.IAlarmAction] = (),
        watch: Watch = "full",
        disabled: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, id)
        settings = endpoint.alarm_settings
        offered = with_warnings(alarm_definitions(endpoint), settings.warning_percent)
        definitions = _enabled(watched(offered, watch), disabled)
        self.thresholds = {definition.name: definition.threshold for definition in definitions}
        notify = [actions.SnsAction(topic)] if topic else []
        runbook = settings.runbook_url
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        paging = []
        for definition in definitions:
            alarm = make_alarm(self, definition, runbook)
            self.alarms[definition.name] = alarm
            if definition.page:
                paging.append(alarm)
            else:
                alarm.add_alarm_action(*notify, *other_actions)
        self.page: cloudwatch.CompositeAlarm | None = None
        if not notify and not page_actions:
            return
        names = ", ".join(definition.name for definition in definitions if definition.page)
        self.page = cloudwatch.CompositeAlarm(
            self,
            "Page",
            alarm_rule=cloudwatch.AlarmRule.any_of(*paging),
            alarm_description=f"At least one of {names} is in ALARM. Runbook: {runbook}#page",
        )
        self.page.add_alarm_action(*notify, *page_actions)
        self.page.add_ok_action(*notify, *page_actions)


def make_alarm(scope: Construct, definition: AlarmDefinition, runbook: str) -> cloudwatch.Alarm:
    """Create an alarm without actions, with a description that ends with the runbook's section."""
    make: Callable[..., cloudwatch.Alarm]
    if definition.anomaly:
        operator = _OUTSIDE_BAND if definition.below else _ABOVE_BAND
        make = partial(cloudwatch.AnomalyDetectionAlarm, std_devs=definition.threshold)
    else:
        operator = _BELOW if definition.below else _ABOVE
        make = partial(cloudwatch.Alarm, threshold=definition.threshold)
    return make(
        scope,
        definition.name,
        metric=definition.metric,
        comparison_operator=operator,
        datapoints_to_alarm=definition.breaches[0],
        evaluation_periods=definition.breaches[1],
        treat_missing_data=definition.missing,
        alarm_description=f"{definition.description}. Runbook: {runbook}#{definition.section}",
    )


def _enabled(definitions: list[AlarmDefinition], disabled: Sequence[str]) -> list[AlarmDefinition]:
    names = [definition.name for definition in definitions]
    unknown = [name for name in disabled if name not in names]
    if unknown:
        raise ValueError(
            f"no alarm of this endpoint has this name; found: {', '.join(unknown)}; "
            f"allowed: {', '.join(names)}"
        )
    enabled = [definition for definition in definitions if definition.name not in disabled]
    if not any(definition.page for definition in enabled):
        paging = ", ".join(definition.name for definition in definitions if definition.page)
        raise ValueError(
            "the composite alarm needs an alarm that pages; found: all of them disabled; "
            f"allowed: at least one of {paging}"
        )
    return enabled
