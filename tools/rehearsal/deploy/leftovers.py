"""Checks after a destroy: only the resources that the environment retains still exist."""

from typing import Any

from embedding_kit.environment_file import load_environment
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.emulator import Emulator

#: The kind and the name of each resource that could be billed.
Leftovers = set[tuple[str, str]]

#: Each kind: service, operation, its arguments, list in the response, name.
_LISTED: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "stack": ("cloudformation", "describe_stacks", {}, "Stacks", "StackName"),
    "function": ("lambda", "list_functions", {}, "Functions", "FunctionName"),
    "capacity": (
        "application-autoscaling",
        "describe_scalable_targets",
        {"ServiceNamespace": "lambda"},
        "ScalableTargets",
        "ResourceId",
    ),
    "log group": ("logs", "describe_log_groups", {}, "logGroups", "logGroupName"),
    "alarm": ("cloudwatch", "describe_alarms", {}, "MetricAlarms", "AlarmName"),
    "composite alarm": (
        "cloudwatch",
        "describe_alarms",
        {"AlarmTypes": ["CompositeAlarm"]},
        "CompositeAlarms",
        "AlarmName",
    ),
    "dashboard": ("cloudwatch", "list_dashboards", {}, "DashboardEntries", "DashboardName"),
    "balancer": ("elbv2", "describe_load_balancers", {}, "LoadBalancers", "LoadBalancerName"),
    "cluster": ("ecs", "list_clusters", {}, "clusterArns", ""),
    "API": ("apigateway", "get_rest_apis", {}, "items", "name"),
    "API key": ("apigateway", "get_api_keys", {}, "items", "name"),
    "web ACL": ("wafv2", "list_web_acls", {"Scope": "REGIONAL"}, "WebACLs", "Name"),
    "state machine": ("stepfunctions", "list_state_machines", {}, "stateMachines", "name"),
    "bucket": ("s3", "list_buckets", {}, "Buckets", "Name"),
    "secret": ("secretsmanager", "list_secrets", {}, "SecretList", "Name"),
    "topic": ("sns", "list_topics", {}, "Topics", "TopicArn"),
    "role": ("iam", "list_roles", {}, "Roles", "RoleName"),
    "repository": ("ecr", "describe_repositories", {}, "repositories", "repositoryName"),
    "budget": ("budgets", "describe_budgets", {"AccountId": ""}, "Budgets", "BudgetName"),
}
#: The names of what the rehearsal itself creates on the way.
_OURS = "rehearsal-"


def list_resources(aws: Emulator) -> Leftovers:
    """List the resources of each kind that could be billed."""
    found: Leftovers = set()
    for kind, (service, operation, arguments, key, name) in _LISTED.items():
        given = {argument: value or aws.account for argument, value in arguments.items()}
        listed = getattr(aws.client(service), operation)(**given).get(key, [])
        found |= {(kind, str(item[name] if name else item)) for item in listed}
    kms = aws.client("kms")
    described = [kms.describe_key(KeyId=k["KeyId"])["KeyMetadata"] for k in kms.list_keys()["Keys"]]
    # AWS bills neither its own keys nor those that are scheduled for deletion.
    billed = [k for k in described if k.get("KeyManager") != "AWS"]
    return found | {("key", k["KeyId"]) for k in billed if k["KeyState"] != "PendingDeletion"}


def check_destroyed(cdk: Cdk, before: Leftovers) -> None:
    """Check that nothing is left that was not there before, except what the environment retains."""
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    retained = {"repository", "log group"} if environment.removal_policy == "retain" else set()
    after = list_resources(cdk.aws) - before
    left = sorted((kind, name) for kind, name in after if not name.startswith(_OURS))
    cdk.report.check(
        f"only what the environment retains is left: {', '.join(sorted(retained)) or 'nothing'}",
        {kind for kind, _ in left} == retained,
        ", ".join(name for _, name in left),
    )
