"""Checks of logs, metric filters, alarms, dashboard, topic, key and budget.

Each takes the emulated AWS, the deployed stacks and one resource. It returns the check, its source,
and the differences from the template.
"""

import json
from collections.abc import Callable
from typing import Any

from deploy_rehearsal.deployed import DeployedStacks, Resource
from deploy_rehearsal.differences import differences, literals
from deploy_rehearsal.emulator import Emulator
from deploy_rehearsal.function_checks import Found

__all__ = ["MONITORING_CHECKS"]


def _log_group(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    groups = aws.client("logs").describe_log_groups(logGroupNamePrefix=resource.physical_id)[
        "logGroups"
    ]
    found: dict[str, Any] = next(
        (group for group in groups if group["logGroupName"] == resource.physical_id), {}
    )
    asked = literals(resource.properties).get("RetentionInDays")
    return (
        "its retention equals the template's",
        "CloudWatch Logs",
        differences({"retentionInDays": asked}, found),
    )


def _metric_filter(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    asked = literals(resource.properties)
    filters = aws.client("logs").describe_metric_filters()["metricFilters"]
    wanted = [_lower_first(t) for t in asked["MetricTransformations"]]
    matching = [
        f for f in filters
        if f["filterPattern"] == asked["FilterPattern"] and not differences(wanted,
        f["metricTransformations"])
    ]  # fmt: skip
    faults = [] if matching else ["no such filter"]
    return "pattern, metric, value and unit equal the template's", "CloudWatch Logs", faults


def _lower_first(asked: Any) -> Any:
    """Write property names in the style of the service's API."""
    if isinstance(asked, dict):
        return {key[0].lower() + key[1:]: _lower_first(value) for key, value in asked.items()}
    return asked


def _alarm(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    found = aws.client("cloudwatch").describe_alarms(AlarmNames=[resource.physical_id])[
        "MetricAlarms"
    ]
    asked = literals(resource.properties)
    wanted = {
        k: v
        for k, v in asked.items()
        if k not in {"Tags", "AlarmActions", "OKActions", "Metrics", "Dimensions"}
    }
    faults = differences(wanted, found[0]) if found else ["no such alarm"]
    for actions in ("AlarmActions", "OKActions") if found else ():
        count = len(found[0].get(actions, []))
        if count != len(resource.properties.get(actions, [])):
            faults.append(f"{count} {actions}")
    check = "threshold, periods, missing data and actions equal the template's"
    if "Metrics" not in asked:
        return f"metric, {check}", "CloudWatch", faults
    kept = [r for r in aws.recorded(resource.type) if r["logical_id"] == resource.logical_id]
    metrics = kept[0]["properties"]["Metrics"] if kept else []
    faults += differences(asked["Metrics"], metrics, "metrics")
    by = "CloudWatch; the plugin's record, for the metric math"
    return f"metric math, {check}", by, faults


def _composite_alarm(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    found = aws.client("cloudwatch").describe_alarms(
        AlarmNames=[resource.physical_id], AlarmTypes=["CompositeAlarm"]
    )["CompositeAlarms"]
    if not found:
        return "its rule names existing alarms", "CloudWatch", ["no such alarm"]
    rule = found[0]["AlarmRule"]
    asked = len(resource.properties.get("AlarmActions", []))
    actions = len(found[0].get("AlarmActions", []))
    faults = [] if actions == asked else [f"{actions} actions, {asked} asked"]
    faults += ["a reference is left in the rule"] if "${" in rule else []
    return (
        f"its rule names {rule.count('ALARM(')} existing alarms; its actions equal the template's",
        "CloudWatch",
        faults,
    )


def _dashboard(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    found = aws.client("cloudwatch").get_dashboard(DashboardName=resource.physical_id)
    body = json.loads(found["DashboardBody"])
    text = json.dumps(body)
    faults = ["a reference is left unresolved"] if '"Ref"' in text or "Fn::" in text else []
    faults += [] if body["widgets"] else ["no widgets"]
    return f"{len(body['widgets'])} widgets, every reference resolved", "CloudWatch", faults


def _topic(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    found = aws.client("sns").get_topic_attributes(TopicArn=resource.physical_id)["Attributes"]
    faults = [] if found["TopicArn"] == resource.physical_id else ["no such topic"]
    # MiniStack does not keep a topic's key, so this reads the template.
    faults += [] if "KmsMasterKeyId" in resource.properties else ["the template has no key"]
    return "exists; the template gives it a key", "SNS; the template, for the key", faults


def _topic_policy(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    asked = literals(resource.properties)["PolicyDocument"]
    topics = aws.client("sns").list_topics()["Topics"]
    policies = [
        json.loads(aws.client("sns").get_topic_attributes(TopicArn=t["TopicArn"])["Attributes"]["Policy"])
        for t in topics
    ]  # fmt: skip
    matching = [p for p in policies if not differences(asked["Statement"], p["Statement"])]
    return "the topic has its statements", "SNS", [] if matching else ["no topic has them"]


def _subscription(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    asked = literals(resource.properties)
    found = aws.client("sns").list_subscriptions()["Subscriptions"]
    matching = [s for s in found if s["Endpoint"] == asked["Endpoint"]]
    return "its address is subscribed", "SNS", [] if matching else ["no such subscription"]


def _key(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    kms, asked = aws.client("kms"), literals(resource.properties)
    rotates = kms.get_key_rotation_status(KeyId=resource.physical_id)["KeyRotationEnabled"]
    faults = differences({"rotation": asked.get("EnableKeyRotation", False)}, {"rotation": rotates})
    policy = json.loads(
        kms.get_key_policy(KeyId=resource.physical_id, PolicyName="default")["Policy"]
    )
    faults += differences(asked["KeyPolicy"]["Statement"], policy["Statement"], "policy")
    return "rotation and key policy equal the template's", "KMS", faults


def _budget(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    client, asked = aws.client("budgets"), literals(resource.properties)
    found = client.describe_budget(AccountId=aws.account, BudgetName=resource.physical_id)["Budget"]
    budget = asked["Budget"]
    faults = differences(
        {
            k: budget[k]
            for k in ("BudgetType", "TimeUnit", "BudgetLimit", "CostFilters")
            if k in budget
        },
        found,
    )
    notices = client.describe_notifications_for_budget(
        AccountId=aws.account, BudgetName=resource.physical_id
    )["Notifications"]
    wanted = [n["Notification"] for n in asked.get("NotificationsWithSubscribers", [])]
    faults += differences(wanted, notices, "notifications")
    return "amount, tag and notifications equal the template's", "Budgets", faults


def _rule(aws: Emulator, deployed: DeployedStacks, resource: Resource) -> Found:
    client, name = aws.client("events"), str(resource.physical_id).rpartition("/")[2]
    found, asked = client.describe_rule(Name=name), literals(resource.properties)
    faults = differences(asked["EventPattern"], json.loads(found["EventPattern"]))
    targets = len(client.list_targets_by_rule(Rule=name)["Targets"])
    faults += [] if targets == len(asked["Targets"]) else [f"{targets} targets"]
    return "event pattern and targets equal the template's", "EventBridge", faults


MONITORING_CHECKS: dict[str, Callable[[Emulator, DeployedStacks, Resource], Found]] = {
    "AWS::Budgets::Budget": _budget,
    "AWS::CloudWatch::Alarm": _alarm,
    "AWS::CloudWatch::CompositeAlarm": _composite_alarm,
    "AWS::CloudWatch::Dashboard": _dashboard,
    "AWS::Events::Rule": _rule,
    "AWS::KMS::Key": _key,
    "AWS::Logs::LogGroup": _log_group,
    "AWS::Logs::MetricFilter": _metric_filter,
    "AWS::SNS::Subscription": _subscription,
    "AWS::SNS::Topic": _topic,
    "AWS::SNS::TopicPolicy": _topic_policy,
}
