"""The keys of the function and of the alarms' topic."""

import json

import pytest

from embedding_client.doctor.facts import PARTS
from embedding_client.doctor.findings import State
from embedding_client.doctor.keys import check_keys, judge_function_key, judge_topic_key

from .conftest import ACCOUNT, deployed, stack

KEY = f"arn:aws:kms:eu-central-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TOPIC = f"arn:aws:sns:eu-central-1:{ACCOUNT}:notices"
ALLOWING = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "kms:*",
        },
        {
            "Effect": "Allow",
            "Principal": {"Service": ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]},
            "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
        },
    ]
}


@pytest.mark.parametrize(
    ("function", "state", "is_ill"),
    [
        ({}, "Enabled", False),
        ({"KMSKeyArn": KEY}, "Enabled", False),
        ({"KMSKeyArn": KEY}, "Disabled", True),
        ({"KMSKeyArn": KEY}, "PendingDeletion", True),
        ({"KMSKeyArn": KEY}, "not there", True),
        ({"KMSKeyArn": KEY, "StateReasonCode": "KMSKeyAccessDenied"}, "Enabled", True),
        ({"LastUpdateStatusReasonCode": "DisabledKMSKey"}, "Enabled", True),
        ({"StateReasonCode": "Idle"}, "Enabled", False),
    ],
)
def test_lambda_needs_the_functions_key(function, state, is_ill):
    """Lambda decrypts the variables whenever it starts an execution environment."""
    found = judge_function_key(function, state)
    assert (found.state is State.ILL) is is_ill


def test_a_role_that_was_made_again_is_named():
    """The grant is for the role that was there before."""
    found = judge_function_key({"KMSKeyArn": KEY, "StateReasonCode": "KMSKeyAccessDenied"})
    assert found.found.endswith("KMSKeyAccessDenied")
    assert "if the execution role was made again with the same name, deploy" in found.advice


@pytest.mark.parametrize(
    ("key", "state", "policy", "is_ill"),
    [
        (None, "Enabled", {}, False),
        (KEY, "Enabled", ALLOWING, False),
        (KEY, "Enabled", {"Statement": {**ALLOWING["Statement"][1], "Action": "kms:*"}}, False),
        (KEY, "Enabled", {"Statement": ALLOWING["Statement"][:1]}, True),
        (KEY, "Enabled", {"Statement": {**ALLOWING["Statement"][1], "Effect": "Deny"}}, True),
        (
            KEY,
            "Enabled",
            {"Statement": {**ALLOWING["Statement"][1], "Action": "kms:Decrypt"}},
            True,
        ),
        (KEY, "Disabled", ALLOWING, True),
        ("alias/aws/sns", "Enabled", {}, True),
    ],
)
def test_cloudwatch_needs_the_topics_key(key, state, policy, is_ill):
    """Otherwise an alarm fires, and nothing is sent."""
    found = judge_topic_key(key, state=state, policy=policy)
    assert (found.state is State.ILL) is is_ill
    assert not is_ill or "no alarm notifies anyone" in found.found


def _answers(aws, *, function=None, policy=ALLOWING, state="Enabled"):
    deployed(aws)
    aws.answers("lambda", "get_function_configuration", function or {})
    if function:
        aws.answers("kms", "describe_key", {"KeyMetadata": {"KeyId": "1", "KeyState": state}})
    for part in PARTS[:-1]:
        if part == "Endpoint":
            aws.answers("cloudformation", "describe_stacks", {"Stacks": [stack()]})
        else:
            aws.refuses("cloudformation", "describe_stacks", "ValidationError")
    found = stack("Observability", AlarmTopicArn=TOPIC)
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [found]})
    aws.answers(
        "sns",
        "get_topic_attributes",
        {"Attributes": {"KmsMasterKeyId": KEY}},
        {"TopicArn": TOPIC},
    )
    aws.answers(
        "kms",
        "get_key_policy",
        {"Policy": json.dumps(policy)},
        {"KeyId": KEY, "PolicyName": "default"},
    )
    aws.answers("kms", "describe_key", {"KeyMetadata": {"KeyId": "1", "KeyState": "Enabled"}})


def test_both_keys_are_read(aws, facts):
    """That of the function, which is a key of your own, and that of the topic."""
    _answers(aws, function={"KMSKeyArn": KEY})
    assert check_keys(facts()).state is State.OK


def test_a_policy_without_cloudwatch_is_ill(aws, facts):
    """A key of your own whose policy was not extended."""
    _answers(aws, policy={"Statement": ALLOWING["Statement"][:1]})
    found = check_keys(facts())
    assert found.state is State.ILL
    assert "does not let cloudwatch.amazonaws.com use kms:Decrypt, kms:Gen" in found.found
