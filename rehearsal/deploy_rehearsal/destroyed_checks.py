"""Checks after a destroy: only the resources that the environment retains still exist."""

from typing import Any

from botocore.exceptions import ClientError

from deploy_rehearsal.callers import CALLER, STRANGER
from deploy_rehearsal.doctor import ROLE
from deploy_rehearsal.emulator import Emulator
from embedding_kit.environment import Environment
from image_rehearsal.report import Report
from stacks.bootstrap_qualifier import bootstrap_qualifier

__all__ = ["check_destroyed"]

#: The names of the resources of bootstrap and of the rehearsal start with one of these.
_OTHERS = ("CDKToolkit", f"cdk-{bootstrap_qualifier()}-", CALLER, STRANGER, ROLE)
#: Each kind of resource that could be billed: service, operation, lists in the response, name.
_LISTED = {
    "stacks": ("cloudformation", "describe_stacks", ("Stacks",), "StackName"),
    "functions": ("lambda", "list_functions", ("Functions",), "FunctionName"),
    "capacity": (
        "application-autoscaling",
        "describe_scalable_targets",
        ("ScalableTargets",),
        "ResourceId",
    ),
    "log groups": ("logs", "describe_log_groups", ("logGroups",), "logGroupName"),
    "alarms": (
        "cloudwatch",
        "describe_alarms",
        ("MetricAlarms", "CompositeAlarms"),
        "AlarmName",
    ),
    "dashboards": ("cloudwatch", "list_dashboards", ("DashboardEntries",), "DashboardName"),
    "load balancers": (
        "elbv2",
        "describe_load_balancers",
        ("LoadBalancers",),
        "LoadBalancerName",
    ),
    "APIs": ("apigateway", "get_rest_apis", ("items",), "name"),
    "API keys": ("apigateway", "get_api_keys", ("items",), "name"),
    "topics": ("sns", "list_topics", ("Topics",), "TopicArn"),
    "roles": ("iam", "list_roles", ("Roles",), "RoleName"),
    "repositories": ("ecr", "describe_repositories", ("repositories",), "repositoryName"),
    "budgets": ("budgets", "describe_budgets", ("Budgets",), "BudgetName"),
}


def check_destroyed(report: Report, aws: Emulator, environment: Environment) -> None:
    """Check each kind of resource that could still be billed."""
    retained = {
        "repositories": environment.repository.on_destroy == "retain",
        "log groups": environment.function.logs_on_destroy == "retain",
    }
    for kind in [*_LISTED, "keys"]:
        try:
            found = _keys(aws) if kind == "keys" else _names(aws, kind)
        except ClientError as error:
            found = [str(error)]
        found = [name for name in found if not name.startswith(_OTHERS)]
        stays = retained.get(kind, False)
        check = "they are retained" if stays else "none is left"
        holds = bool(found) == stays
        report.check(
            f"destroyed {kind}", check, holds, by="the service's API", found=", ".join(found)
        )


def _names(aws: Emulator, kind: str) -> list[str]:
    service, operation, lists, name = _LISTED[kind]
    arguments: dict[str, dict[str, Any]] = {
        "capacity": {"ServiceNamespace": "lambda"},
        "alarms": {"AlarmTypes": ["MetricAlarm", "CompositeAlarm"]},
        "budgets": {"AccountId": aws.account},
    }
    found: dict[str, Any] = getattr(aws.client(service), operation)(**arguments.get(kind, {}))
    return [str(item[name]) for key in lists for item in found.get(key, [])]


def _keys(aws: Emulator) -> list[str]:
    """Return the keys that are not scheduled for deletion: AWS does not bill the others."""
    kms = aws.client("kms")
    described = [kms.describe_key(KeyId=k["KeyId"])["KeyMetadata"] for k in kms.list_keys()["Keys"]]
    ours = [k for k in described if k.get("KeyManager") != "AWS"]
    return [k["KeyId"] for k in ours if k["KeyState"] != "PendingDeletion"]
