"""The KMS keys of the function and of the alarms' topic, and who may use them."""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, State, ill, ok

__all__ = ["check_keys", "judge_function_key", "judge_topic_key"]

#: https://docs.aws.amazon.com/lambda/latest/api/API_GetFunctionConfiguration.html
_REASONS = ("DisabledKMSKey", "InvalidStateKMSKey", "KMSKeyAccessDenied", "KMSKeyNotFound")
#: What CloudWatch does with a topic's key, and so its key policy must allow.
#: https://repost.aws/knowledge-center/cloudwatch-configure-alarm-sns
_PUBLISHER, _ACTIONS = "cloudwatch.amazonaws.com", ("kms:Decrypt", "kms:GenerateDataKey")
_PAGE = "docs/security.md"
#: The key that AWS manages for SNS, whose policy no one can change.
_OF_SNS = "alias/aws/sns"


def check_keys(facts: Facts) -> Finding:
    """Read the keys of the function's environment variables and of the alarms' topic."""
    function = facts.function()
    key = function.get("KMSKeyArn")
    states = [_state(facts, key)] if key else []
    found = judge_function_key(function, *states)
    topic = facts.output("Observability", "AlarmTopicArn")
    if found.state is State.ILL or topic is None:
        return found
    attributes = facts.aws.call("sns", "get_topic_attributes", TopicArn=topic)["Attributes"]
    of_topic = attributes.get("KmsMasterKeyId")
    if not of_topic or of_topic == _OF_SNS:
        return judge_topic_key(of_topic, state="Enabled", policy={})
    policy = facts.aws.call("kms", "get_key_policy", KeyId=of_topic, PolicyName="default")
    return judge_topic_key(
        of_topic, state=_state(facts, of_topic), policy=json.loads(policy["Policy"])
    )


def _state(facts: Facts, key: str) -> str:
    answer = facts.aws.find("kms", "describe_key", missing=["NotFoundException"], KeyId=key)
    return "not there" if answer is None else str(answer["KeyMetadata"]["KeyState"])


def judge_function_key(function: Mapping[str, Any], state: str = "Enabled") -> Finding:
    """Judge the key of the function's environment variables by what Lambda and KMS say of it."""
    key = function.get("KMSKeyArn")
    named = [function.get(name) for name in ("StateReasonCode", "LastUpdateStatusReasonCode")]
    reasons = [reason for reason in named if reason in _REASONS]
    if reasons:
        return ill(
            f"Lambda cannot use the key of the environment variables: {reasons[0]}",
            "enable the key; if the execution role was made again with the same name, deploy, "
            f"because the key's grant is for the role before ({_PAGE})",
            reason=reasons[0],
        )
    if key and state != "Enabled":
        return ill(
            f"the key of the environment variables is {state}, and no environment can start",
            "enable the key, or cancel its deletion",
            key=key,
        )
    return ok("the function's key is enabled" if key else "the function has AWS's own key")


def judge_topic_key(key: str | None, *, state: str, policy: Mapping[str, Any]) -> Finding:
    """Judge whether CloudWatch may use the key of the alarms' topic."""
    if key == _OF_SNS:
        return ill(
            "the topic of the alarms has the key that AWS manages for SNS, which CloudWatch may "
            "not use: no alarm notifies anyone",
            "deploy, so that the topic has its own key again",
        )
    if key and state != "Enabled":
        return ill(
            f"the key of the alarms' topic is {state}: no alarm notifies anyone",
            "enable the key, or cancel its deletion",
            key=key,
        )
    missing = [action for action in _ACTIONS if key and not _allows(policy, action)]
    if missing:
        return ill(
            f"the policy of the key {key} does not let {_PUBLISHER} use {', '.join(missing)}: no "
            "alarm notifies anyone",
            f"add the statement of {_PAGE} to the key's policy",
            key=key,
        )
    return ok("enabled, and alarms may use the topic's" if key else "the topic has no key")


def _allows(policy: Mapping[str, Any], action: str) -> bool:
    return any(
        statement["Effect"] == "Allow"
        and _PUBLISHER in _services(statement.get("Principal"))
        and any(
            fnmatchcase(action.lower(), name.lower())
            for name in _listed(statement.get("Action", []))
        )
        for statement in _listed(policy.get("Statement", []))
    )


def _services(principal: Any) -> list[str]:
    if principal == "*":
        return [_PUBLISHER]
    return _listed(principal.get("Service", [])) if isinstance(principal, Mapping) else []


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
