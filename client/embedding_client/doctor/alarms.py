"""The environment's alarms, and who is notified."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok, warning

__all__ = ["check_alarms", "check_notices", "judge_alarms", "judge_notices"]

#: CloudWatch describes as many at a time.
_MOST_ASKED = 100
_MOST_NAMES = 5
#: The section of the runbook at the end of an alarm's description.
_SECTION = re.compile(r"runbook\S*#(\w+)$")


def check_alarms(facts: Facts) -> Finding:
    """Read the state of each alarm of the environment's stacks."""
    names, found = facts.alarm_names(), []
    for start in range(0, len(names), _MOST_ASKED):
        answer = facts.aws.call(
            "cloudwatch",
            "describe_alarms",
            AlarmNames=names[start : start + _MOST_ASKED],
            AlarmTypes=["MetricAlarm", "CompositeAlarm"],
            MaxRecords=_MOST_ASKED,
        )
        found += [*answer.get("MetricAlarms", []), *answer.get("CompositeAlarms", [])]
    return judge_alarms(found)


def judge_alarms(alarms: Sequence[Mapping[str, Any]]) -> Finding:
    """Judge the states of all alarms."""
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
        return ill(
            f"{len(ringing)} of {len(alarms)} in ALARM: {_some(ringing)}",
            ", ".join(f"docs/runbook.md#{section}" for section in _sections(ringing))
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


def check_notices(facts: Facts) -> Finding:
    """Read who is subscribed to the alarms' topic."""
    topic = facts.output("Observability", "AlarmTopicArn")
    if topic is None:
        if "Observability" not in facts.stacks():
            raise SkippedError("the environment has no alarms of its own")
        return judge_notices([])
    subscriptions = facts.aws.pages(
        "sns",
        "list_subscriptions_by_topic",
        "Subscriptions",
        token="NextToken",  # noqa: S106 - a field
        TopicArn=topic,
    )
    return judge_notices([item["SubscriptionArn"] for item in subscriptions])


def judge_notices(subscriptions: Sequence[str]) -> Finding:
    """Judge the ARNs of the topic's subscriptions."""
    pending = sum(not arn.startswith("arn:") for arn in subscriptions)
    if not subscriptions:
        return warning("no subscriber", "set emails under [alarms]")
    if pending:
        return warning(
            f"{pending} of {len(subscriptions)} subscribers have not confirmed",
            "follow the link in the email from SNS",
            pending=pending,
        )
    return ok(f"{len(subscriptions)} confirmed subscribers", subscribers=len(subscriptions))


def _some(alarms: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({_section(alarm) or alarm["AlarmName"] for alarm in alarms})
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _sections(alarms: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(set(filter(None, map(_section, alarms))))


def _section(alarm: Mapping[str, Any]) -> str:
    """Return the alarm's section of the runbook, which is its short name; or nothing."""
    found = _SECTION.search(alarm.get("AlarmDescription") or "")
    return found[1] if found else ""
