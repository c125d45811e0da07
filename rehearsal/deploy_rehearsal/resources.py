"""What stands against what was asked: a check for each type of resource, read back by its own API.

What MiniStack only keeps (`RECORDED`) is read from the plugin's record: as CloudFormation resolved
it, never acted on, and told so.
"""

import json
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from deploy_rehearsal.emulator import Emulator
from deploy_rehearsal.standing import Resource, Standing, literals
from image_rehearsal.report import Report

__all__ = ["CHECKS", "RECORDED", "check_resources"]

#: Types that are kept and not made, with what looks at them instead.
RECORDED = {
    "AWS::CodeDeploy::Application": "releases: CodeDeploy moves no traffic here",
    "AWS::CodeDeploy::DeploymentGroup": "releases: CodeDeploy moves no traffic here",
    "AWS::CodeDeploy::DeploymentConfig": "releases: CodeDeploy moves no traffic here",
    "AWS::ApplicationAutoScaling::ScalableTarget": "capacity: nothing is scaled here",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "capacity: nothing is scaled here",
    "AWS::Logs::QueryDefinition": "saved queries: no query runs here",
}

_SILENT = {"AWS::CDK::Metadata"}


def check_resources(report: Report, aws: Emulator, standing: Standing) -> None:
    """Add a row for each resource of the stacks."""
    for resource in standing.resources:
        if resource.type in _SILENT:
            continue
        stands = resource.physical_id is not None and resource.status.endswith("_COMPLETE")
        if not stands:
            report.check(resource.name, "stands", False, by="CloudFormation", found=resource.status)
        elif resource.type in RECORDED:
            _check_recorded(report, aws, resource)
        elif resource.type in CHECKS:
            try:
                checked, by, differences = CHECKS[resource.type](aws, standing, resource)
            except (ClientError, KeyError, IndexError, ValueError) as error:
                checked, by, differences = "can be read back", "the service's API", [repr(error)]
            report.check(
                resource.name, checked, not differences, by=by, found="; ".join(differences)
            )
        else:
            report.check(resource.name, "has a check", False, by="this table", found="it has none")


def _check_recorded(report: Report, aws: Emulator, resource: Resource) -> None:
    kept = [r for r in aws.recorded(resource.type) if r["logical_id"] == resource.logical_id]
    properties = kept[0]["properties"] if kept else {}
    report.check(
        resource.name,
        "asked of AWS as the template says, every reference resolved",
        bool(kept) and not _differences(literals(resource.properties), properties),
        by="the plugin's record; " + RECORDED[resource.type],
        found="" if kept else "not recorded",
    )


def _differences(asked: Any, found: Any, place: str = "") -> list[str]:
    """List where what was found lacks or contradicts a plain value that was asked for."""
    if asked is None:
        return []
    if isinstance(asked, dict):
        if not isinstance(found, dict):
            return [f"{place}: {found!r}"]
        return [d for k, v in asked.items() for d in _differences(v, found.get(k), f"{place}.{k}")]
    if isinstance(asked, list):
        if not isinstance(found, list) or len(asked) != len(found):
            return [f"{place}: {found!r}"]
        pairs = enumerate(zip(asked, found, strict=True))
        return [d for n, (a, f) in pairs for d in _differences(a, f, f"{place}[{n}]")]
    if _plain(asked) != _plain(found):
        return [f"{place.lstrip('.')} asked {asked!r}, found {found!r}"]
    return []


def _plain(value: Any) -> Any:
    """Compare numbers and truth as values: an API may write them as text."""
    if isinstance(value, bool) or str(value).lower() in {"true", "false"}:
        return str(value).lower()
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


_Found = tuple[str, str, list[str]]
_Check = Callable[[Emulator, Standing, Resource], _Found]


def _repository(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    ecr, name = aws.client("ecr"), resource.physical_id
    found = ecr.describe_repositories(repositoryNames=[name])["repositories"][0]
    asked = literals(resource.properties)
    policy = json.loads(ecr.get_repository_policy(repositoryName=name)["policyText"])
    lifecycle = json.loads(ecr.get_lifecycle_policy(repositoryName=name)["lifecyclePolicyText"])
    differences = _differences(
        {
            "imageTagMutability": asked.get("ImageTagMutability", "MUTABLE"),
            "scanOnPush": asked.get("ImageScanningConfiguration", {}).get("ScanOnPush", False),
            "policy": asked["RepositoryPolicyText"],
            "lifecycle": json.loads(asked["LifecyclePolicy"]["LifecyclePolicyText"]),
        },
        {
            "imageTagMutability": found["imageTagMutability"],
            "scanOnPush": found["imageScanningConfiguration"]["scanOnPush"],
            "policy": policy,
            "lifecycle": lifecycle,
        },
    )
    return "tag mutability, scan, repository policy and lifecycle as asked", "ECR", differences


def _function(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    found = aws.client("lambda").get_function(FunctionName=resource.physical_id)
    configuration, asked = found["Configuration"], literals(resource.properties)
    wanted = {
        name: asked[name]
        for name in (
            "Architectures", "EphemeralStorage", "ImageConfig", "LoggingConfig", "MemorySize",
            "PackageType", "Timeout", "TracingConfig",
        )
        if name in asked
    }  # fmt: skip
    if "ImageConfig" in wanted:
        configuration["ImageConfig"] = configuration.get("ImageConfigResponse", {}).get(
            "ImageConfig"
        )
    differences = _differences(wanted, configuration)
    variables = asked.get("Environment", {}).get("Variables", {})
    differences += _differences(
        variables, configuration.get("Environment", {}).get("Variables", {})
    )
    reserved = asked.get("ReservedConcurrentExecutions")
    kept = found.get("Concurrency", {}).get("ReservedConcurrentExecutions")
    differences += _differences(
        {"ReservedConcurrentExecutions": reserved}, {"ReservedConcurrentExecutions": kept}
    )
    if asked.get("SnapStart"):
        differences += _differences(asked["SnapStart"], configuration.get("SnapStart", {}))
    differences += _tags(asked, found.get("Tags", {}))
    differences += _image_is_there(aws, found.get("Code", {}).get("ImageUri", ""))
    told = (
        "size, logs, tracing, variables, concurrency, tags as asked; its image is in the repository"
    )
    return told, "Lambda, ECR", differences


def _tags(asked: dict[str, Any], found: dict[str, str]) -> list[str]:
    wanted = {tag["Key"]: tag["Value"] for tag in asked.get("Tags", [])}
    return [
        f"tag {k} asked {v!r}, found {found.get(k)!r}"
        for k, v in wanted.items()
        if found.get(k) != v
    ]


def _image_is_there(aws: Emulator, uri: str) -> list[str]:
    registry, _, name = uri.partition("/")
    name, _, tag = name.partition(":")
    if not registry.startswith(f"{aws.account}.dkr.ecr.{aws.region}."):
        return [f"image {uri!r} is in no repository of this account"]
    images = aws.client("ecr").batch_get_image(repositoryName=name, imageIds=[{"imageTag": tag}])[
        "images"
    ]
    if not images:
        return [f"image {tag} is not in {name}"]
    manifest = json.loads(images[0]["imageManifest"])
    return [] if "manifests" not in manifest else [f"image {tag} is an index"]


def _version(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    function, _, number = str(resource.physical_id).rpartition(":")
    found = aws.client("lambda").get_function_configuration(FunctionName=function, Qualifier=number)
    differences = [] if found["Version"] == number else [f"version {found['Version']}"]
    return "published", "Lambda", differences


def _alias(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    client, asked = aws.client("lambda"), literals(resource.properties)
    function = str(resource.physical_id).rpartition(":")[0]
    found = client.get_alias(FunctionName=function, Name=asked["Name"])
    versions = [
        item["Version"]
        for item in client.list_versions_by_function(FunctionName=function)["Versions"]
        if item["Version"] != "$LATEST"
    ]
    newest = max(versions, key=int)
    differences = _differences({"Name": asked["Name"]}, found)
    if found["FunctionVersion"] != newest:
        differences.append(f"points to {found['FunctionVersion']}, newest is {newest}")
    weights = found.get("RoutingConfig", {}).get("AdditionalVersionWeights")
    if bool(weights) != bool(asked.get("RoutingConfig")):
        differences.append(f"weights {weights}")
    return "points to the newest published version, weights as asked", "Lambda", differences


def _url(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    asked, client = literals(resource.properties), aws.client("lambda")
    function = _embedder(standing)
    found = client.get_function_url_config(FunctionName=function, Qualifier=asked["Qualifier"])
    differences = _differences(
        {"AuthType": asked["AuthType"], "InvokeMode": asked.get("InvokeMode", "BUFFERED")}, found
    )
    urls = client.list_function_url_configs(FunctionName=function)["FunctionUrlConfigs"]
    wide = [url for url in urls if url["AuthType"] != "AWS_IAM"]
    differences += [f"{len(wide)} URLs without a signature"] if wide else []
    try:
        client.get_function_url_config(FunctionName=function)
        differences.append("a URL stands on the function itself")
    except client.exceptions.ResourceNotFoundException:
        pass
    return "signed requests only, on the alias, none on the function", "Lambda", differences


def _permission(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    asked, client = literals(resource.properties), aws.client("lambda")
    function = _embedder(standing)
    statements = json.loads(client.get_policy(FunctionName=function)["Policy"])["Statement"]
    wanted = {"Effect": "Allow", "Action": asked["Action"]}
    condition = {
        "lambda:InvokeFunctionUrl": "lambda:FunctionUrlAuthType",
        "lambda:InvokeFunction": "lambda:InvokedViaFunctionUrl",
    }[asked["Action"]]
    matching = [
        statement
        for statement in statements
        if not _differences(wanted, statement)
        and not _differences(asked.get("Principal"), _principal(statement))
        and condition in json.dumps(statement.get("Condition", {}))
    ]
    differences = [] if matching else [f"no such statement among {len(statements)}"]
    bare = [s for s in matching if s["Resource"].endswith(f":function:{function}")]
    differences += ["on the function, not on an alias"] if bare else []
    told = f"{asked['Action']}, on an alias, for this principal, by URL only"
    return told, "Lambda", differences


def _embedder(standing: Standing) -> str:
    """Name the function behind the endpoint's alias."""
    return standing.outputs["AliasArn"].split(":")[-2]


def _principal(statement: dict[str, Any]) -> str:
    principal = statement.get("Principal", {})
    return str(next(iter(principal.values()))) if isinstance(principal, dict) else str(principal)


def _role(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    iam, asked = aws.client("iam"), literals(resource.properties)
    role = iam.get_role(RoleName=resource.physical_id)["Role"]
    trusted = asked["AssumeRolePolicyDocument"]
    differences = _differences(trusted, role["AssumeRolePolicyDocument"])
    attached = iam.list_attached_role_policies(RoleName=resource.physical_id)["AttachedPolicies"]
    wanted = len(asked.get("ManagedPolicyArns") or [])
    if len(attached) != wanted:
        differences.append(f"{len(attached)} managed policies, {wanted} asked")
    return "trusts whom it was asked to; no further managed policy", "IAM", differences


def _policy(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    iam, asked = aws.client("iam"), literals(resource.properties)
    name, wanted = asked["PolicyName"], asked["PolicyDocument"]
    found = []
    for role in iam.list_roles()["Roles"]:
        if name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]:
            found.append(
                iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)["PolicyDocument"]
            )
    differences = _differences(wanted, found[0]) if found else ["on no role"]
    return "its statements stand on the role, every reference resolved", "IAM", differences


def _log_group(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    groups = aws.client("logs").describe_log_groups(logGroupNamePrefix=resource.physical_id)[
        "logGroups"
    ]
    found = next((g for g in groups if g["logGroupName"] == resource.physical_id), {})
    asked = literals(resource.properties).get("RetentionInDays")
    return "retention as asked", "CloudWatch Logs", _differences({"retentionInDays": asked}, found)


def _metric_filter(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    asked = literals(resource.properties)
    filters = aws.client("logs").describe_metric_filters()["metricFilters"]
    wanted = [_lower_first(t) for t in asked["MetricTransformations"]]
    matching = [
        f for f in filters
        if f["filterPattern"] == asked["FilterPattern"] and not _differences(wanted,
        f["metricTransformations"])
    ]  # fmt: skip
    differences = [] if matching else ["no such filter"]
    return "pattern, metric, value and unit as asked", "CloudWatch Logs", differences


def _lower_first(asked: Any) -> Any:
    """Write property names as the service's API does."""
    if isinstance(asked, dict):
        return {key[0].lower() + key[1:]: _lower_first(value) for key, value in asked.items()}
    return asked


def _alarm(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    found = aws.client("cloudwatch").describe_alarms(AlarmNames=[resource.physical_id])[
        "MetricAlarms"
    ]
    asked = literals(resource.properties)
    wanted = {
        k: v
        for k, v in asked.items()
        if k not in {"Tags", "AlarmActions", "OKActions", "Metrics", "Dimensions"}
    }
    differences = _differences(wanted, found[0]) if found else ["no such alarm"]
    for actions in ("AlarmActions", "OKActions") if found else ():
        count = len(found[0].get(actions, []))
        if count != len(resource.properties.get(actions, [])):
            differences.append(f"{count} {actions}")
    told = "threshold, periods, missing data and actions as asked"
    if "Metrics" not in asked:
        return f"metric, {told}", "CloudWatch", differences
    kept = [r for r in aws.recorded(resource.type) if r["logical_id"] == resource.logical_id]
    metrics = kept[0]["properties"]["Metrics"] if kept else []
    differences += _differences(asked["Metrics"], metrics, "metrics")
    by = "CloudWatch; the plugin's record, for the mathematics is not computed here"
    return f"metric math, {told}", by, differences


def _composite_alarm(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    found = aws.client("cloudwatch").describe_alarms(
        AlarmNames=[resource.physical_id], AlarmTypes=["CompositeAlarm"]
    )["CompositeAlarms"]
    if not found:
        return "its rule names alarms that stand", "CloudWatch", ["no such alarm"]
    rule = found[0]["AlarmRule"]
    asked = len(resource.properties.get("AlarmActions", []))
    actions = len(found[0].get("AlarmActions", []))
    differences = [] if actions == asked else [f"{actions} actions, {asked} asked"]
    differences += ["a reference is left in the rule"] if "${" in rule else []
    return (
        f"its rule names {rule.count('ALARM(')} alarms that stand; actions as asked",
        "CloudWatch",
        differences,
    )


def _dashboard(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    found = aws.client("cloudwatch").get_dashboard(DashboardName=resource.physical_id)
    body = json.loads(found["DashboardBody"])
    text = json.dumps(body)
    differences = ["a reference is left unresolved"] if '"Ref"' in text or "Fn::" in text else []
    differences += [] if body["widgets"] else ["no widgets"]
    return f"{len(body['widgets'])} widgets, every reference resolved", "CloudWatch", differences


def _topic(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    found = aws.client("sns").get_topic_attributes(TopicArn=resource.physical_id)["Attributes"]
    differences = [] if found["TopicArn"] == resource.physical_id else ["no such topic"]
    # MiniStack keeps no topic's key: that one is asked for is seen on the template alone.
    differences += [] if "KmsMasterKeyId" in resource.properties else ["no key is asked for"]
    return "stands; a key of its own is asked for", "SNS; the template, for the key", differences


def _topic_policy(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    asked = literals(resource.properties)["PolicyDocument"]
    topics = aws.client("sns").list_topics()["Topics"]
    policies = [
        json.loads(aws.client("sns").get_topic_attributes(TopicArn=t["TopicArn"])["Attributes"]["Policy"])
        for t in topics
    ]  # fmt: skip
    matching = [p for p in policies if not _differences(asked["Statement"], p["Statement"])]
    return "its statements stand on the topic", "SNS", [] if matching else ["on no topic"]


def _subscription(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    asked = literals(resource.properties)
    found = aws.client("sns").list_subscriptions()["Subscriptions"]
    matching = [s for s in found if s["Endpoint"] == asked["Endpoint"]]
    return "told to the address", "SNS", [] if matching else ["no such subscription"]


def _key(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    kms, asked = aws.client("kms"), literals(resource.properties)
    rotates = kms.get_key_rotation_status(KeyId=resource.physical_id)["KeyRotationEnabled"]
    differences = _differences(
        {"rotation": asked.get("EnableKeyRotation", False)}, {"rotation": rotates}
    )
    policy = json.loads(
        kms.get_key_policy(KeyId=resource.physical_id, PolicyName="default")["Policy"]
    )
    differences += _differences(asked["KeyPolicy"]["Statement"], policy["Statement"], "policy")
    return "rotation and key policy as asked", "KMS", differences


def _budget(aws: Emulator, standing: Standing, resource: Resource) -> _Found:
    client, asked = aws.client("budgets"), literals(resource.properties)
    found = client.describe_budget(AccountId=aws.account, BudgetName=resource.physical_id)["Budget"]
    budget = asked["Budget"]
    differences = _differences(
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
    differences += _differences(wanted, notices, "notifications")
    return "amount, tag and notifications as asked", "Budgets", differences


CHECKS: dict[str, _Check] = {
    "AWS::Budgets::Budget": _budget,
    "AWS::CloudWatch::Alarm": _alarm,
    "AWS::CloudWatch::CompositeAlarm": _composite_alarm,
    "AWS::CloudWatch::Dashboard": _dashboard,
    "AWS::ECR::Repository": _repository,
    "AWS::IAM::Policy": _policy,
    "AWS::IAM::Role": _role,
    "AWS::KMS::Key": _key,
    "AWS::Lambda::Alias": _alias,
    "AWS::Lambda::Function": _function,
    "AWS::Lambda::Permission": _permission,
    "AWS::Lambda::Url": _url,
    "AWS::Lambda::Version": _version,
    "AWS::Logs::LogGroup": _log_group,
    "AWS::Logs::MetricFilter": _metric_filter,
    "AWS::SNS::Subscription": _subscription,
    "AWS::SNS::Topic": _topic,
    "AWS::SNS::TopicPolicy": _topic_policy,
}
