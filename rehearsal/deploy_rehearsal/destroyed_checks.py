"""Checks after a destroy: only the resources that the environment retains still exist."""

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from deploy_rehearsal.callers import CALLER, STRANGER
from deploy_rehearsal.emulator import Emulator
from embedding_kit.environment import Environment
from image_rehearsal.report import Report

__all__ = ["check_destroyed"]

_BOOTSTRAP = ("cdk-hnb659fds-", CALLER, STRANGER)


def check_destroyed(report: Report, aws: Emulator, environment: Environment) -> None:
    """Check each kind of resource that could still be billed."""
    retained = {
        "repositories": environment.repository.on_destroy == "retain",
        "log groups": environment.function.logs_on_destroy == "retain",
    }
    stays = {kind for kind, stay in retained.items() if stay}
    for kind, listed in _LISTED.items():
        try:
            found = [name for name in listed(aws) if not name.startswith(_BOOTSTRAP)]
        except ClientError as error:
            found = [str(error)]
        check = "they are retained" if kind in stays else "none is left"
        holds = bool(found) if kind in stays else not found
        report.check(
            f"destroyed {kind}", check, holds, by="the service's API", found=", ".join(found)
        )


def _stacks(aws: Emulator) -> list[str]:
    stacks = aws.client("cloudformation").describe_stacks()["Stacks"]
    return [s["StackName"] for s in stacks if s["StackName"] != "CDKToolkit"]


def _functions(aws: Emulator) -> list[str]:
    return [f["FunctionName"] for f in aws.client("lambda").list_functions()["Functions"]]


def _capacity(aws: Emulator) -> list[str]:
    targets = aws.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="lambda"
    )
    return [target["ResourceId"] for target in targets["ScalableTargets"]]


def _log_groups(aws: Emulator) -> list[str]:
    return [g["logGroupName"] for g in aws.client("logs").describe_log_groups()["logGroups"]]


def _alarms(aws: Emulator) -> list[str]:
    both = ["MetricAlarm", "CompositeAlarm"]
    found: dict[str, Any] = aws.client("cloudwatch").describe_alarms(AlarmTypes=both)
    return [a["AlarmName"] for a in [*found["MetricAlarms"], *found["CompositeAlarms"]]]


def _dashboards(aws: Emulator) -> list[str]:
    entries = aws.client("cloudwatch").list_dashboards()["DashboardEntries"]
    return [d["DashboardName"] for d in entries]


def _topics(aws: Emulator) -> list[str]:
    return [t["TopicArn"] for t in aws.client("sns").list_topics()["Topics"]]


def _keys(aws: Emulator) -> list[str]:
    """The keys that are not scheduled for deletion: AWS does not bill the others."""
    kms = aws.client("kms")
    described = [kms.describe_key(KeyId=k["KeyId"])["KeyMetadata"] for k in kms.list_keys()["Keys"]]
    ours = [k for k in described if k.get("KeyManager") != "AWS"]
    return [k["KeyId"] for k in ours if k["KeyState"] != "PendingDeletion"]


def _roles(aws: Emulator) -> list[str]:
    return [r["RoleName"] for r in aws.client("iam").list_roles()["Roles"]]


def _repositories(aws: Emulator) -> list[str]:
    found = aws.client("ecr").describe_repositories()["repositories"]
    return [r["repositoryName"] for r in found]


def _budgets(aws: Emulator) -> list[str]:
    found = aws.client("budgets").describe_budgets(AccountId=aws.account).get("Budgets", [])
    return [b["BudgetName"] for b in found]


_LISTED: dict[str, Callable[[Emulator], list[str]]] = {
    "stacks": _stacks,
    "functions": _functions,
    "capacity": _capacity,
    "log groups": _log_groups,
    "alarms": _alarms,
    "dashboards": _dashboards,
    "topics": _topics,
    "keys": _keys,
    "roles": _roles,
    "repositories": _repositories,
    "budgets": _budgets,
}
