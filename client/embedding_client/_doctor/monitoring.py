"""The environment's alarms, who is notified, and the logs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from embedding_client._doctor.results import CheckResult, SkippedError, failed, ok, warning
from embedding_client._doctor.snapshot import Snapshot

#: CloudWatch describes as many at a time.
_MOST_ASKED = 100
_MOST_NAMES = 5
#: The section of the runbook at the end of an alarm's description.
_SECTION = re.compile(r"runbook\S*#(\w+)$")


def check_alarms(snapshot: Snapshot) -> CheckResult:
    """Read the state of each alarm of the environment's stacks."""
    names, alarms = snapshot.alarm_names(), []
    for start in range(0, len(names), _MOST_ASKED):
        answer = snapshot.aws.call(
            "cloudwatch",
            "describe_alarms",
            AlarmNames=names[start : start + _MOST_ASKED],
            AlarmTypes=["MetricAlarm", "CompositeAlarm"],
            MaxRecords=_MOST_ASKED,
        )
        alarms += [*answer.get("MetricAlarms", []), *answer.get("CompositeAlarms", [])]
    if not alarms:
        return warning(
            "no alarms", "deploy the Observability stack, or monitor the metrics yourself"
        )
    ringing, blind = (
        [alarm for alarm in alarms if alarm["StateValue"] == state]
        for state in ("ALARM", "INSUFFICIENT_DATA")
    )
    muted = [alarm for alarm in alarms if alarm.get("ActionsEnabled", True) is False]
    groups = {"alarm": ringing, "insufficient_data": blind, "muted": muted}
    data = {name: [alarm["AlarmName"] for alarm in group] for name, group in groups.items()}
    if ringing:
        sections = sorted({_section(alarm) for alarm in ringing} - {""})
        return failed(
            f"{len(ringing)} of {len(alarms)} in ALARM: {_some(ringing)}",
            ", ".join(f"docs/runbook.md#{section}" for section in sections)
            or "read the descriptions of the alarms",
            **data,
        )
    if muted:
        return warning(
            f"{len(muted)} of {len(alarms)} have their actions disabled: {_some(muted)}",
            "aws cloudwatch enable-alarm-actions --alarm-names NAME",
            **data,
        )
    if blind:
        return warning(
            f"{len(blind)} of {len(alarms)} in INSUFFICIENT_DATA: {_some(blind)}",
            "normal in the first hour, and until an alarm's event has happened once; "
            "otherwise docs/runbook.md#missingplatformlogs",
            **data,
        )
    return ok(f"{len(alarms)} in OK", **data)


def check_subscribers(snapshot: Snapshot) -> CheckResult:
    """Read who is subscribed to each topic of the alarms."""
    if "Observability" not in snapshot.stacks():
        raise SkippedError("the environment has no alarms of its own")
    subscriptions = [
        snapshot.aws.pages("sns", "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic)
        for key in ("AlarmTopicArn", "PageTopicArn")
        if (topic := snapshot.output("Observability", key))
    ]
    if not subscriptions or not all(subscriptions):
        return warning("no subscriber", "set emails under [alarms], or subscribe to its page_topic")
    arns = [item["SubscriptionArn"] for items in subscriptions for item in items]
    if pending := sum(not arn.startswith("arn:") for arn in arns):
        return warning(
            f"{pending} of {len(arns)} subscribers have not confirmed",
            "follow the link in the email from SNS",
            pending=pending,
        )
    return ok(f"{len(arns)} confirmed subscribers", subscribers=len(arns))


def check_logs(snapshot: Snapshot) -> CheckResult:
    """Read how the function logs, and its log group."""
    logging = snapshot.function().get("LoggingConfig", {})
    name = logging.get("LogGroup", "")
    groups = snapshot.aws.call("logs", "describe_log_groups", logGroupNamePrefix=name)["logGroups"]
    group = next((group for group in groups if group["logGroupName"] == name), None)
    environment = snapshot.environment()
    # Metric filters read the platform's JSON at INFO.
    form, level = logging.get("LogFormat", "Text"), logging.get("SystemLogLevel", "INFO")
    found = f"{form}, system log level {level}"
    if form != "JSON" or level not in {"INFO", "DEBUG"}:
        return failed(
            f"{found}: alarms on memory and cold starts have no data",
            f"scripts/deploy {environment} sets JSON and INFO",
        )
    if group is None:
        return failed(
            f"the log group {name} does not exist", f"scripts/deploy {environment} creates it"
        )
    days = group.get("retentionInDays")
    if days is None:
        return warning(
            "logs are kept forever, and billed",
            "set log_retention_days under [function], and deploy",
        )
    return ok(f"{found}, kept {days} days", days=days)


def _some(alarms: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({_section(alarm) or alarm["AlarmName"] for alarm in alarms})
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _section(alarm: Mapping[str, Any]) -> str:
    """Return the alarm's section of the runbook, which is its short name; or nothing."""
    found = _SECTION.search(alarm.get("AlarmDescription") or "")
    return found[1] if found else ""
