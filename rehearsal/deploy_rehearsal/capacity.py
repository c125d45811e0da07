"""Checks of provisioned concurrency: it is registered, kept by a declined destroy, and removed.

The emulated AWS does not scale. The rehearsal allocates provisioned concurrency with the call that
Application Auto Scaling would make, and checks that the scripts remove it.
"""

from typing import Any

from deploy_rehearsal.cdk import Cdk, Finished
from deploy_rehearsal.deployed import DeployedStacks
from image_rehearsal.report import Report

__all__ = ["allocate", "check_declined", "check_ended", "check_registered"]

_BY = "Lambda, Application Auto Scaling; the rehearsal allocates, nothing scales here"


def allocate(cdk: Cdk, deployed: DeployedStacks, count: int = 1) -> None:
    """Allocate provisioned concurrency to the alias, as Application Auto Scaling would."""
    function, _, alias = deployed.outputs["AliasArn"].rpartition(":")
    cdk.aws.client("lambda").put_provisioned_concurrency_config(
        FunctionName=function, Qualifier=alias, ProvisionedConcurrentExecutions=count
    )


def check_registered(report: Report, cdk: Cdk, deployed: DeployedStacks, done: Finished) -> None:
    """Check a deploy that turned provisioned concurrency on."""
    found = [(t["MinCapacity"], t["MaxCapacity"]) for t in _targets(cdk, deployed)]
    check = "a deploy with provisioned concurrency registers minimum and maximum"
    holds = done.status == 0 and found == [(1, 2)]
    report.check("capacity", check, holds, by=_BY, found=f"status {done.status}, {found}")


def check_declined(report: Report, cdk: Cdk, deployed: DeployedStacks) -> None:
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


def check_ended(report: Report, cdk: Cdk, deployed: DeployedStacks, done: Finished) -> None:
    """Check a deploy that turned provisioned concurrency off."""
    left = [_targets(cdk, deployed), _allocated(cdk, deployed)]
    report.check(
        "capacity",
        "a deploy without it removes the allocation, which the CDK alone would leave billing",
        done.status == 0 and left == [[], []],
        by=_BY,
        found=f"status {done.status}, left: {left}",
    )


def _targets(cdk: Cdk, deployed: DeployedStacks) -> list[dict[str, Any]]:
    name, alias = deployed.outputs["AliasArn"].split(":")[-2:]
    found: list[dict[str, Any]] = cdk.aws.client(
        "application-autoscaling"
    ).describe_scalable_targets(
        ServiceNamespace="lambda", ResourceIds=[f"function:{name}:{alias}"]
    )["ScalableTargets"]
    names = ("MinCapacity", "MaxCapacity", "SuspendedState")
    return [{key: target[key] for key in names if key in target} for target in found]


def _allocated(cdk: Cdk, deployed: DeployedStacks) -> list[str]:
    function = deployed.outputs["AliasArn"].rpartition(":")[0]
    found = cdk.aws.client("lambda").list_provisioned_concurrency_configs(FunctionName=function)
    return [config["FunctionArn"] for config in found["ProvisionedConcurrencyConfigs"]]
