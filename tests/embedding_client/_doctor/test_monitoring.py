"""The states of the alarms, and who is notified."""

import pytest

from embedding_client._doctor.monitoring import (
    alarms_result,
    check_alarms,
    check_logs,
    check_subscribers,
    subscribers_result,
)
from embedding_client._doctor.results import SkippedError, State

from .conftest import deployed, resources, stack


def alarm(name, state="OK", section="errors", **more):
    return {
        "AlarmName": f"EmbeddingKit-dev-Observability-Alarms{name}",
        "StateValue": state,
        "AlarmDescription": f"Text. Runbook: docs/runbook.md#{section}",
        **more,
    }


def test_alarms_in_ok_are_well():
    """Their number is named."""
    found = alarms_result([alarm("A"), alarm("B")])
    assert (found.state, found.found) == (State.OK, "2 in OK")


def test_an_alarm_is_ill():
    """With its section of the runbook, and its name for programs."""
    found = alarms_result([alarm("A", "ALARM", "throttles"), alarm("B", "INSUFFICIENT_DATA")])
    assert (found.state, found.found) == (State.FAILED, "1 of 2 in ALARM: throttles")
    assert found.advice == "docs/runbook.md#throttles"
    assert found.data["alarm"] == ["EmbeddingKit-dev-Observability-AlarmsA"]


def test_an_alarm_of_ones_own_has_its_name():
    """It has no section in the runbook."""
    found = alarms_result([{"AlarmName": "mine", "StateValue": "ALARM"}])
    assert (found.found, found.advice) == (
        "1 of 1 in ALARM: mine",
        "read the descriptions of the alarms",
    )


def test_an_alarm_without_data_is_a_warning():
    """Some names of many."""
    alarms = [alarm(name, "INSUFFICIENT_DATA", f"s{name}") for name in "ABCDEFG"]
    found = alarms_result(alarms)
    assert (found.state, found.found) == (
        State.WARNING,
        "7 of 7 in INSUFFICIENT_DATA: sA, sB, sC, sD, sE and 2 more",
    )


def test_disabled_actions_and_no_alarms_are_warnings():
    """Both mean that nobody hears of an incident."""
    found = alarms_result([alarm("A", ActionsEnabled=False)])
    assert found.found == "1 of 1 have their actions disabled: errors"
    assert alarms_result([]).state == State.WARNING


def test_the_alarms_are_those_of_the_stacks(aws, snapshot):
    """Those of releases too, which have other names; a hundred are asked for at a time."""
    deployed(aws, stack("Observability"))
    names = [[f"release{number}" for number in range(3)], [f"a{number}" for number in range(99)]]
    listed = ("cloudformation", "list_stack_resources")
    aws.answers(*listed, resources({"AWS::CloudWatch::Alarm": names[0], "AWS::IAM::Role": ["r"]}))
    kinds = {"AWS::CloudWatch::Alarm": names[1], "AWS::CloudWatch::CompositeAlarm": ["page"]}
    aws.answers(*listed, resources(kinds))
    expected = [*names[0], *names[1], "page"]
    for asked in (expected[:100], expected[100:]):
        aws.answers(
            "cloudwatch",
            "describe_alarms",
            {"MetricAlarms": [alarm(name) for name in asked]},
            {
                "AlarmNames": asked,
                "AlarmTypes": ["MetricAlarm", "CompositeAlarm"],
                "MaxRecords": 100,
            },
        )
    assert check_alarms(snapshot()).found == "103 in OK"


@pytest.mark.parametrize(
    ("arns", "state", "words"),
    [
        ([], State.WARNING, "no subscriber"),
        (["arn:aws:sns:a"], State.OK, "1 confirmed subscribers"),
        (
            ["arn:aws:sns:a", "PendingConfirmation"],
            State.WARNING,
            "1 of 2 subscribers have not confirmed",
        ),
    ],
)
def test_each_subscriber_has_to_confirm(arns, state, words):
    """Until then SNS sends nothing to it."""
    found = subscribers_result(arns)
    assert (found.state, found.found) == (state, words)


def test_the_topic_is_an_output(aws, snapshot):
    """Of the stack of observability."""
    topic = "arn:aws:sns:eu-central-1:123456789012:topic"
    deployed(aws, stack("Observability", AlarmTopicArn=topic))
    aws.answers("sns", "list_subscriptions_by_topic", {"Subscriptions": []}, {"TopicArn": topic})
    assert check_subscribers(snapshot()).found == "no subscriber"
    page = "arn:aws:sns:eu-central-1:123456789012:page"
    deployed(aws, stack("Observability", PageTopicArn=page))
    confirmed = {"Subscriptions": [{"SubscriptionArn": f"{page}:1"}]}
    aws.answers("sns", "list_subscriptions_by_topic", confirmed, {"TopicArn": page})
    assert check_subscribers(snapshot()).found == "1 confirmed subscribers"
    deployed(aws, stack("Observability", AlarmTopicArn=topic, PageTopicArn=page))
    aws.answers("sns", "list_subscriptions_by_topic", {"Subscriptions": []}, {"TopicArn": topic})
    aws.answers("sns", "list_subscriptions_by_topic", confirmed, {"TopicArn": page})
    assert check_subscribers(snapshot()).found == "no subscriber"
    deployed(aws, stack("Observability"))
    assert check_subscribers(snapshot()).found == "no subscriber"
    deployed(aws)
    with pytest.raises(SkippedError, match="no alarms of its own"):
        check_subscribers(snapshot())


@pytest.mark.parametrize(
    ("logging", "group", "expected"),
    [
        ({}, {"retentionInDays": 7}, (State.OK, "JSON, system log level INFO, kept 7 days")),
        ({"SystemLogLevel": "DEBUG"}, {"retentionInDays": 7}, (State.OK, "JSON, system log level")),
        ({"SystemLogLevel": "WARN"}, {}, (State.FAILED, "JSON, system log level WARN: alarms on")),
        ({"LogFormat": "Text"}, {}, (State.FAILED, "Text, system log level INFO: alarms on")),
        ({}, {}, (State.WARNING, "logs are kept forever, and billed")),
        ({}, None, (State.FAILED, "the log group /aws/group does not exist")),
    ],
)
def test_the_logs(aws, snapshot, logging, group, expected):
    """Alarms need JSON at INFO; another group with the same beginning does not count."""
    deployed(aws)
    config = {"LogFormat": "JSON", "SystemLogLevel": "INFO", "LogGroup": "/aws/group"}
    answer = {"LoggingConfig": config | logging}
    aws.answers("lambda", "get_function_configuration", answer)
    groups = [{"logGroupName": "/aws/group2", "retentionInDays": 1}]
    if group is not None:
        groups.append({"logGroupName": "/aws/group", **group})
    asked = {"logGroupNamePrefix": "/aws/group"}
    aws.answers("logs", "describe_log_groups", {"logGroups": groups}, asked)
    found = check_logs(snapshot())
    state, words = expected
    assert (found.state, found.found.startswith(words)) == (state, True)
