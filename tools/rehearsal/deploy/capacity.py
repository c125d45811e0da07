"""Checks of provisioned concurrency: a declined destroy keeps it, and a deploy without it ends it.

The emulated AWS does not scale. The rehearsal allocates provisioned concurrency with the call that
Application Auto Scaling would make, and checks that the scripts remove it.
"""

from typing import Any

from tools.rehearsal.deploy.cdk import Cdk, Finished
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.image.report import Report

__all__ = ["allocate", "check_declined", "check_ended"]

_BY = "Lambda, Application Auto Scaling; the rehearsal allocates, nothing scales here"


def allocate(cdk: Cdk, deployed: Outputs, count: int = 1) -> None:
    """Allocate provisioned concurrency to the alias, as Application Auto Scaling would."""
    function, _, alias = deployed["AliasArn"].rpartition(":")
    cdk.aws.client("lambda").put_provisioned_concurrency_config(
        FunctionName=function, Qualifier=alias, ProvisionedConcurrentExecutions=count
    )


def check_declined(report: Report, cdk: Cdk, deployed: Outputs) -> None:
    """Decline `scripts/destroy`, and check that capacity is as it was."""
    before = _targets(cdk, deployed), _allocated(cdk, deployed)
    with report.step("scripts/destroy, answered n"):
        done = cdk.destroy(answer="n")
    after = _targets(cdk, deployed), _allocated(cdk, deployed)
    report.check(
        "capacity",
        "scripts/destroy, answered n, keeps provisioned concurrency and scaling as they were",
        bool(before[1]) and after == before and done.count(r"\(y/n\)|\[y/N\]") > 0,
        by=_BY,
        found=f"{len(after[1])} allocated, suspended: {[t.get('SuspendedState') for t in after[0]]}"
        f", status {done.status}",
    )


def check_ended(report: Report, cdk: Cdk, deployed: Outputs, done: Finished) -> None:
    """Check a deploy that turned provisioned concurrency off."""
    left = [_targets(cdk, deployed), _allocated(cdk, deployed)]
    report.check(
        "capacity",
        "a deploy without it removes the allocation, which the CDK alone would leave billing",
        done.status == 0 and left == [[], []],
        by=_BY,
        found=f"status {done.status}, left: {left}",
    )


def _targets(cdk: Cdk, deployed: Outputs) -> list[dict[str, Any]]:
    name, alias = deployed["AliasArn"].split(":")[-2:]
    found: list[dict[str, Any]] = cdk.aws.client(
        "application-autoscaling"
    ).describe_scalable_targets(
        ServiceNamespace="lambda", ResourceIds=[f"function:{name}:{alias}"]
    )["ScalableTargets"]
    names = ("MinCapacity", "MaxCapacity", "SuspendedState")
    return [{key: target[key] for key in names if key in target} for target in found]


def _allocated(cdk: Cdk, deployed: Outputs) -> list[str]:
    function = deployed["AliasArn"].rpartition(":")[0]
    found = cdk.aws.client("lambda").list_provisioned_concurrency_configs(FunctionName=function)
    return [config["FunctionArn"] for config in found["ProvisionedConcurrencyConfigs"]]
