"""The states of the alarms, and who is notified."""

import pytest

from embedding_client._doctor.monitoring import check_alarms, check_logs, check_subscribers
from embedding_client._doctor.results import SkippedError

from .conftest import FAILED, OK, WARNING, deployed, resources, stack


def alarm(name, state="OK", section="errors", **more):
    return {
        "AlarmName": f"EmbeddingKit-dev-Observability-Alarms{name}",
        "StateValue": state,
        "AlarmDescription": f"Text. Runbook: docs/runbook.md#{section}",
        **more,
    }


BLIND, PAGE = "INSUFFICIENT_DATA", "docs/runbook.md"
RINGING, MUTE = alarm("A", "ALARM", "throttles"), alarm("A", ActionsEnabled=False)
FOREIGN = {"AlarmName": "mine", "StateValue": "ALARM"}


@pytest.mark.parametrize(
    ("alarms", "state", "words", "advice"),
    [
        ([alarm("A"), alarm("B")], OK, "2 in OK", ""),
        ([RINGING, alarm("B", BLIND)], FAILED, "1 of 2 in ALARM: throttles", f"{PAGE}#throttles"),
        ([FOREIGN], FAILED, "1 of 1 in ALARM: mine", "read the descriptions of the alarms"),
        (
            [alarm(name, BLIND, f"s{name}") for name in "ABCDEFG"],
            WARNING,
            f"7 of 7 in {BLIND}: sA, sB, sC, sD, sE and 2 more",
            "normal in the first hour",
        ),
        ([MUTE], WARNING, "1 of 1 have their actions disabled: errors", "aws cloudwatch enable-a"),
        ([], WARNING, "no alarms", "deploy the Observability stack"),
    ],
)
def test_the_states_of_the_alarms(aws, snapshot, *, alarms, state, words, advice):
    """An alarm has its section of the runbook, and its name for programs."""
    deployed(aws)
    names = [alarm["AlarmName"] for alarm in alarms]
    listed = resources({"AWS::CloudWatch::Alarm": names})
    aws.answers("cloudformation", "list_stack_resources", listed)
    if alarms:
        aws.answers("cloudwatch", "describe_alarms", {"MetricAlarms": alarms})
    found = check_alarms(snapshot())
    assert (found.state, found.found) == (state, words)
    assert found.advice.startswith(advice)
    if state == FAILED:
        assert found.data["alarm"] == names[:1]


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


TOPIC, URGENT = (f"arn:aws:sns:eu-central-1:123456789012:{name}" for name in ("topic", "page"))


@pytest.mark.parametrize(
    ("topics", "arns", "state", "words"),
    [
        ({"AlarmTopicArn": TOPIC}, [[]], WARNING, "no subscriber"),
        ({"PageTopicArn": URGENT}, [[f"{URGENT}:1"]], OK, "1 confirmed subscribers"),
        ({"AlarmTopicArn": TOPIC, "PageTopicArn": URGENT}, [[], [f"{URGENT}:1"]], WARNING, "no"),
        ({}, [], WARNING, "no subscriber"),
        ({"PageTopicArn": URGENT}, [[f"{URGENT}:1", "Pending"]], WARNING, "1 of 2 subscribers h"),
    ],
)
def test_each_topic_has_a_subscriber_who_has_confirmed(
    aws, snapshot, *, topics, arns, state, words
):
    """The topics are outputs of the stack of observability."""
    deployed(aws, stack("Observability", **topics))
    for topic, found in zip(topics.values(), arns, strict=True):
        answer = {"Subscriptions": [{"SubscriptionArn": arn} for arn in found]}
        aws.answers("sns", "list_subscriptions_by_topic", answer, {"TopicArn": topic})
    result = check_subscribers(snapshot())
    assert (result.state, result.found.startswith(words)) == (state, True)


def test_alarms_of_another_app_have_no_topic(aws, snapshot):
    """The environment has no stack of observability."""
    deployed(aws)
    with pytest.raises(SkippedError, match="no alarms of its own"):
        check_subscribers(snapshot())


@pytest.mark.parametrize(
    ("logging", "group", "expected"),
    [
        ({}, {"retentionInDays": 7}, (OK, "JSON, system log level INFO, kept 7 days")),
        ({"SystemLogLevel": "DEBUG"}, {"retentionInDays": 7}, (OK, "JSON, system log level")),
        ({"SystemLogLevel": "WARN"}, {}, (FAILED, "JSON, system log level WARN: alarms on")),
        ({"LogFormat": "Text"}, {}, (FAILED, "Text, system log level INFO: alarms on")),
        ({}, {}, (WARNING, "logs are kept forever, and billed")),
        ({}, None, (FAILED, "the log group /aws/group does not exist")),
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
