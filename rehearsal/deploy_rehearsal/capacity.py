"""Provisioned concurrency: registered, left alone by a destroy that is declined, and ended.

Nothing scales in the emulated AWS, so the rehearsal allocates what Application Auto Scaling would,
by the same call. Whether it is ended again is up to the scripts.
"""

from typing import Any

from deploy_rehearsal.cdk import Cdk, Finished
from deploy_rehearsal.standing import Standing
from image_rehearsal.report import Report

__all__ = ["allocate", "check_declined", "check_ended", "check_registered"]

_BY = "Lambda, Application Auto Scaling; allocated by the rehearsal in its place"


def allocate(cdk: Cdk, standing: Standing, count: int = 1) -> None:
    """Allocate provisioned concurrency to the alias, as Application Auto Scaling would."""
    function, _, alias = standing.outputs["AliasArn"].rpartition(":")
    cdk.aws.client("lambda").put_provisioned_concurrency_config(
        FunctionName=function, Qualifier=alias, ProvisionedConcurrentExecutions=count
    )


def check_registered(report: Report, cdk: Cdk, standing: Standing, done: Finished) -> None:
    """Check a deploy that turned provisioned concurrency on."""
    found = [(t["MinCapacity"], t["MaxCapacity"]) for t in _targets(cdk, standing)]
    told = "a deploy with provisioned concurrency registers minimum and maximum"
    holds = done.status == 0 and found == [(1, 2)]
    report.check("capacity", told, holds, by=_BY, found=f"status {done.status}, {found}")


def check_declined(report: Report, cdk: Cdk, standing: Standing) -> None:
    """Decline `scripts/destroy`, and check that capacity is as it was."""
    before = _targets(cdk, standing), _allocated(cdk, standing)
    with report.step("scripts/destroy, answered n"):
        done = cdk.destroy(answer="n")
    after = _targets(cdk, standing), _allocated(cdk, standing)
    report.check(
        "capacity",
        "scripts/destroy, answered n, leaves provisioned concurrency and scaling as they were",
        bool(before[1]) and after == before and done.count(r"\(y/n\)|\[y/N\]") > 0,
        by=_BY,
        found=f"{len(after[1])} allocated, suspended: {[t.get('SuspendedState') for t in after[0]]}"
        f", status {done.status}",
    )


def check_ended(report: Report, cdk: Cdk, standing: Standing, done: Finished) -> None:
    """Check a deploy that turned provisioned concurrency off."""
    left = [_targets(cdk, standing), _allocated(cdk, standing)]
    report.check(
        "capacity",
        "a deploy without it ends what was allocated, which the CDK alone leaves billing",
        done.status == 0 and left == [[], []],
        by=_BY,
        found=f"status {done.status}, left: {left}",
    )


def _targets(cdk: Cdk, standing: Standing) -> list[dict[str, Any]]:
    name, alias = standing.outputs["AliasArn"].split(":")[-2:]
    found: list[dict[str, Any]] = cdk.aws.client(
        "application-autoscaling"
    ).describe_scalable_targets(
        ServiceNamespace="lambda", ResourceIds=[f"function:{name}:{alias}"]
    )["ScalableTargets"]
    told = ("MinCapacity", "MaxCapacity", "SuspendedState")
    return [{key: target[key] for key in told if key in target} for target in found]


def _allocated(cdk: Cdk, standing: Standing) -> list[str]:
    function = standing.outputs["AliasArn"].rpartition(":")[0]
    found = cdk.aws.client("lambda").list_provisioned_concurrency_configs(FunctionName=function)
    return [config["FunctionArn"] for config in found["ProvisionedConcurrencyConfigs"]]
