"""The states of the alarms, and who is notified."""

import pytest

from embedding_client.doctor.alarms import check_alarms, check_notices, judge_alarms, judge_notices
from embedding_client.doctor.facts import PARTS
from embedding_client.doctor.findings import SkippedError, State

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
    found = judge_alarms([alarm("A"), alarm("B")])
    assert (found.state, found.found) == (State.OK, "2 in OK")


def test_an_alarm_is_ill():
    """With its section of the runbook, and its name for programs."""
    found = judge_alarms([alarm("A", "ALARM", "throttles"), alarm("B", "INSUFFICIENT_DATA")])
    assert (found.state, found.found) == (State.ILL, "1 of 2 in ALARM: throttles")
    assert found.advice == "docs/runbook.md#throttles"
    assert found.data["alarm"] == ["EmbeddingKit-dev-Observability-AlarmsA"]


def test_an_alarm_of_ones_own_has_its_name():
    """It has no section in the runbook."""
    found = judge_alarms([{"AlarmName": "mine", "StateValue": "ALARM"}])
    assert (found.found, found.advice) == (
        "1 of 1 in ALARM: mine",
        "read the descriptions of the alarms",
    )


def test_an_alarm_without_data_is_a_warning():
    """Some names of many."""
    alarms = [alarm(name, "INSUFFICIENT_DATA", f"s{name}") for name in "ABCDEFG"]
    found = judge_alarms(alarms)
    assert (found.state, found.found) == (
        State.WARNING,
        "7 of 7 in INSUFFICIENT_DATA: sA, sB, sC, sD, sE and 2 more",
    )


def test_disabled_actions_and_no_alarms_are_warnings():
    """Both mean that nobody hears of an incident."""
    found = judge_alarms([alarm("A", ActionsEnabled=False)])
    assert found.found == "1 of 1 have their actions disabled: errors"
    assert judge_alarms([]).state == State.WARNING


def environment(aws, *parts, **outputs):
    """Answer with the stacks of an environment."""
    deployed(aws)
    for part in PARTS:
        if part in parts:
            found = {"Stacks": [stack(part, **outputs)]}
            aws.answers("cloudformation", "describe_stacks", found)
        else:
            aws.refuses("cloudformation", "describe_stacks", "ValidationError")


def test_the_alarms_are_those_of_the_stacks(aws, facts):
    """Those of releases too, which have other names; a hundred are asked for at a time."""
    environment(aws, "Endpoint", "Observability")
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
    assert check_alarms(facts()).found == "103 in OK"


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
    found = judge_notices(arns)
    assert (found.state, found.found) == (state, words)


def test_the_topic_is_an_output(aws, facts):
    """Of the stack of observability."""
    topic = "arn:aws:sns:eu-central-1:123456789012:topic"
    environment(aws, "Observability", AlarmTopicArn=topic)
    aws.answers("sns", "list_subscriptions_by_topic", {"Subscriptions": []}, {"TopicArn": topic})
    assert check_notices(facts()).found == "no subscriber"
    environment(aws, "Observability")
    assert check_notices(facts()).found == "no subscriber"
    environment(aws)
    with pytest.raises(SkippedError, match="no alarms of its own"):
        check_notices(facts())
