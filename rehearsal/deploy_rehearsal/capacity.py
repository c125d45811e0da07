"""Environments kept ready, turned on and off again: what the CDK leaves billing must be ended.

Nothing scales in the emulated AWS, so what Application Auto Scaling would allocate is allocated
here, by the call that it would make. Whether it is ended again is the scripts' doing.
"""

from typing import Any

from deploy_rehearsal.cdk import Cdk
from deploy_rehearsal.standing import Standing
from embedding_kit.environment import Environment
from embedding_kit.settings import Provisioned, WeightedExperiment
from image_rehearsal.report import Report

__all__ = ["allocate", "check_capacity"]

_BY = "Lambda, Application Auto Scaling; allocated by the rehearsal in its place"


def check_capacity(report: Report, cdk: Cdk, standing: Standing, environment: Environment) -> None:
    """Deploy with environments kept ready, then without, where the environment can do both."""
    if isinstance(environment.cold_start, Provisioned):
        return
    if isinstance(environment.experiment, WeightedExperiment):
        report.note(
            "Provisioned concurrency was not tried: synth refuses it beside an experiment by "
            "weights."
        )
        return
    written = cdk.checkout.keep_ready(minimum=1, maximum=2)
    with report.step("scripts/deploy, with environments kept ready"):
        on = cdk.deploy()
    targets = _targets(cdk, standing)
    held = on.status == 0 and targets == [(1, 2)]
    told = "scripts/deploy with environments kept ready registers floor and ceiling"
    report.check("capacity", told, held, by=_BY, found=f"status {on.status}, {targets}")
    allocate(cdk, standing)
    cdk.checkout.file.write_text(written)
    with report.step("scripts/deploy, with none kept ready any more"):
        off = cdk.deploy()
    left = [_targets(cdk, standing), _allocated(cdk, standing)]
    report.check(
        "capacity",
        "scripts/deploy without them ends what was allocated, which the CDK alone leaves billing",
        off.status == 0 and left == [[], []],
        by=_BY,
        found=f"status {off.status}, left: {left}",
    )


def allocate(cdk: Cdk, standing: Standing) -> None:
    """Allocate one environment to the alias, as Application Auto Scaling would."""
    function, _, alias = standing.outputs["AliasArn"].rpartition(":")
    cdk.aws.client("lambda").put_provisioned_concurrency_config(
        FunctionName=function, Qualifier=alias, ProvisionedConcurrentExecutions=1
    )


def _targets(cdk: Cdk, standing: Standing) -> list[tuple[int, int]]:
    name, alias = standing.outputs["AliasArn"].split(":")[-2:]
    found: list[dict[str, Any]] = cdk.aws.client(
        "application-autoscaling"
    ).describe_scalable_targets(
        ServiceNamespace="lambda", ResourceIds=[f"function:{name}:{alias}"]
    )["ScalableTargets"]
    return [(target["MinCapacity"], target["MaxCapacity"]) for target in found]


def _allocated(cdk: Cdk, standing: Standing) -> list[str]:
    function = standing.outputs["AliasArn"].rpartition(":")[0]
    found = cdk.aws.client("lambda").list_provisioned_concurrency_configs(FunctionName=function)
    return [config["FunctionArn"] for config in found["ProvisionedConcurrencyConfigs"]]
