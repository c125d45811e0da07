"""Checks after a destroy: only the resources that the environment retains still exist."""

from typing import Any

from embedding_kit.environment import EnvironmentSettings
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.report import Report

__all__ = ["Leftovers", "check_destroyed", "list_resources"]

#: The names of each kind of resource that could be billed.
Leftovers = dict[str, set[str]]

#: Each kind: service, operation, its arguments, lists in the response, name.
_LISTED: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...], str]] = {
    "stacks": ("cloudformation", "describe_stacks", {}, ("Stacks",), "StackName"),
    "functions": ("lambda", "list_functions", {}, ("Functions",), "FunctionName"),
    "capacity": (
        "application-autoscaling",
        "describe_scalable_targets",
        {"ServiceNamespace": "lambda"},
        ("ScalableTargets",),
        "ResourceId",
    ),
    "log groups": ("logs", "describe_log_groups", {}, ("logGroups",), "logGroupName"),
    "alarms": (
        "cloudwatch",
        "describe_alarms",
        {"AlarmTypes": ["MetricAlarm", "CompositeAlarm"]},
        ("MetricAlarms", "CompositeAlarms"),
        "AlarmName",
    ),
    "dashboards": ("cloudwatch", "list_dashboards", {}, ("DashboardEntries",), "DashboardName"),
    "load balancers": (
        "elbv2",
        "describe_load_balancers",
        {},
        ("LoadBalancers",),
        "LoadBalancerName",
    ),
    "clusters of servers": ("ecs", "list_clusters", {}, ("clusterArns",), ""),
    "APIs": ("apigateway", "get_rest_apis", {}, ("items",), "name"),
    "API keys": ("apigateway", "get_api_keys", {}, ("items",), "name"),
    "web ACLs": ("wafv2", "list_web_acls", {"Scope": "REGIONAL"}, ("WebACLs",), "Name"),
    "state machines": ("stepfunctions", "list_state_machines", {}, ("stateMachines",), "name"),
    "buckets": ("s3", "list_buckets", {}, ("Buckets",), "Name"),
    "secrets": ("secretsmanager", "list_secrets", {}, ("SecretList",), "Name"),
    "topics": ("sns", "list_topics", {}, ("Topics",), "TopicArn"),
    "roles": ("iam", "list_roles", {}, ("Roles",), "RoleName"),
    "repositories": ("ecr", "describe_repositories", {}, ("repositories",), "repositoryName"),
    "budgets": ("budgets", "describe_budgets", {"AccountId": ""}, ("Budgets",), "BudgetName"),
}
#: What the rehearsal itself creates on the way.
_OURS = "rehearsal-"


def list_resources(aws: Emulator) -> Leftovers:
    """List the resources of each kind that could be billed."""
    return {**{kind: _names(aws, kind) for kind in _LISTED}, "keys": _keys(aws)}


def check_destroyed(
    report: Report, aws: Emulator, environment: EnvironmentSettings, before: Leftovers
) -> None:
    """Check that nothing is left that was not there before, except what the environment retains."""
    retained = {
        "repositories": environment.removal_policy == "retain",
        "log groups": environment.removal_policy == "retain",
    }
    for kind, names in list_resources(aws).items():
        left = sorted(n for n in names - before[kind] if not n.startswith(_OURS))
        stays = retained.get(kind, False)
        check = "they are retained" if stays else "none is left"
        report.check(
            f"destroyed {kind}",
            check,
            bool(left) == stays,
            by="the service's API",
            found=", ".join(left),
        )


def _names(aws: Emulator, kind: str) -> set[str]:
    service, operation, arguments, lists, name = _LISTED[kind]
    given = {key: value or aws.account for key, value in arguments.items()}
    found: dict[str, Any] = getattr(aws.client(service), operation)(**given)
    items = (item for key in lists for item in found.get(key, []))
    return {str(item[name] if name else item) for item in items}


def _keys(aws: Emulator) -> set[str]:
    """Return the keys that are not scheduled for deletion: AWS does not bill the others."""
    kms = aws.client("kms")
    described = [kms.describe_key(KeyId=k["KeyId"])["KeyMetadata"] for k in kms.list_keys()["Keys"]]
    ours = [k for k in described if k.get("KeyManager") != "AWS"]
    return {k["KeyId"] for k in ours if k["KeyState"] != "PendingDeletion"}
