"""The stacks, the last release, the version that serves, and weights on the alias."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from embedding_client.doctor.facts import Facts, stack_name
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok, warning
from embedding_client.doctor.outside import NotPermittedError
from embedding_client.doctor.words import ago

__all__ = [
    "check_release",
    "check_stacks",
    "check_version",
    "check_weights",
    "judge_release",
    "judge_stacks",
    "judge_version",
    "judge_weights",
]

#: https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_DeploymentInfo.html
_RUNNING = frozenset({"Created", "Queued", "InProgress", "Baking", "Ready"})


def check_stacks(facts: Facts) -> Finding:
    """Read the status of each stack of the environment."""
    if facts.asked.environment is not None and facts.stack() is None:
        name = facts.asked.environment
        place = f"{facts.identity()['Account']}, {facts.outside.region}"
        return ill(
            f"{stack_name(name, 'Endpoint')} does not exist in {place}",
            f"scripts/deploy {name}, or choose another account (--profile) or region (--region)",
        )
    statuses = {stack["StackName"]: stack["StackStatus"] for stack in facts.stacks().values()}
    listed = facts.output("Observability", "Stacks")
    removed = statuses.keys() - listed.split(",") if listed else ()
    return judge_stacks(statuses, removed=sorted(removed), name=facts.environment())


def judge_stacks(
    statuses: Mapping[str, str], *, removed: Sequence[str] = (), name: str = ""
) -> Finding:
    """Judge the statuses of the stacks, by their name; the last deploy did not have `removed`."""

    def of(*ends: str) -> str:
        return ", ".join(f"{name}: {s}" for name, s in statuses.items() if s.endswith(ends))

    data = {"stacks": dict(statuses)}
    if failed := of("_FAILED"):
        return ill(failed, "docs/runbook.md#release has the command that completes it", **data)
    if running := of("_IN_PROGRESS"):
        return warning(running, "wait until it ends, and run it again", **data)
    if rolled_back := of("ROLLBACK_COMPLETE"):
        return warning(
            rolled_back,
            "the last deploy was rolled back, and the previous version serves: "
            "docs/runbook.md#release",
            **data,
        )
    if removed:
        return warning(
            f"the last deploy did not have {', '.join(removed)}: deployed, reachable and billed",
            f"scripts/destroy {name} --removed",
            **data,
        )
    return ok(f"{len(statuses)} stacks are complete", **data)


def check_release(facts: Facts) -> Finding:
    """Read the last deployment of CodeDeploy."""
    return judge_release(facts.deployment(), facts.outside.now())


def judge_release(deployment: Mapping[str, Any] | None, now: datetime) -> Finding:
    """Judge the state of the last deployment."""
    if deployment is None:
        return ok("no release has replaced a version yet")
    status, name = deployment["status"], deployment["deploymentId"]
    at = deployment.get("completeTime") or deployment.get("createTime")
    when = f", {ago(now - at)}" if at else ""
    found = f"{name}: {status}{when}"
    data = {"deployment": name, "status": status}
    if status in _RUNNING:
        return warning(found, "wait until it ends, and run it again", **data)
    rollback = deployment.get("rollbackInfo", {})
    # A rollback is a deployment of its own, which succeeds:
    # https://docs.aws.amazon.com/codedeploy/latest/userguide/deployments-rollback-and-redeploy.html
    is_rollback = deployment.get("creator") == "codeDeployRollback"
    if status != "Succeeded" or is_rollback:
        reason = rollback.get("rollbackMessage") or deployment.get("errorInformation", {}).get(
            "message"
        )
        if is_rollback:
            reason = f"it rolled {rollback.get('rollbackTriggeringDeploymentId', 'one')} back"
        return warning(
            f"{found}{f' ({reason})' if reason else ''}",
            "the previous version serves: find the reason, and deploy again: "
            "docs/runbook.md#release",
            **data,
        )
    return ok(found, **data)


def check_version(facts: Facts) -> Finding:
    """Read the state of the version that serves."""
    return judge_version(facts.function())


def judge_version(configuration: Mapping[str, Any]) -> Finding:
    """Judge whether the version can run; one that is Active has pulled its image."""
    state = configuration.get("State", "Active")
    updated = configuration.get("LastUpdateStatus", "Successful")
    found = f"version {configuration['Version']} is {state}, {configuration['MemorySize']:,} MB"
    data = {"version": configuration["Version"], "state": state}
    if state == "Failed" or updated == "Failed":
        reason = configuration.get("StateReason") or configuration.get("LastUpdateStatusReason")
        return ill(
            f"{found} ({reason or 'no reason given'})",
            "if Lambda cannot pull the image, check the repository's policy and its images",
            **data,
        )
    if state != "Active":
        return warning(found, "an idle version starts at the next request: run it again", **data)
    return ok(found, **data)


def check_weights(facts: Facts) -> Finding:
    """Read the alias's weights, and what explains them."""
    alias = facts.alias_state()
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    if not weights:
        return judge_weights(alias, by="", name="")
    stack = str((facts.stack() or {})["StackName"])
    body = facts.aws.call("cloudformation", "get_template", StackName=stack)["TemplateBody"]
    by = ""
    if any(
        resource["Type"] == "AWS::Lambda::Alias" and "RoutingConfig" in resource["Properties"]
        for resource in body["Resources"].values()
    ):
        by = "an experiment by weights"
    elif str((facts.stack() or {})["StackStatus"]).endswith("_IN_PROGRESS"):
        by = "a running update of the stack"
    else:
        deployment = _deployment(facts)
        if deployment is not None and deployment["status"] in _RUNNING:
            by = f"the running release {deployment['deploymentId']}"
    return judge_weights(alias, by=by, name=facts.environment())


def judge_weights(alias: Mapping[str, Any], *, by: str, name: str) -> Finding:
    """Judge the weights of an alias; `by` is what explains them, or empty."""
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    if not weights:
        return ok(f"none: version {alias['FunctionVersion']} gets all requests")
    shares = {alias["FunctionVersion"]: 1 - sum(weights.values())} | weights
    found = ", ".join(f"version {version}: {share:.0%}" for version, share in shares.items())
    if by:
        return ok(f"{found}, by {by}", shares=shares)
    return ill(
        f"{found}, and no release is running: AWS refuses further releases",
        f"scripts/clear-weights {name} (docs/runbook.md#stuck-weights)",
        shares=shares,
    )


def _deployment(facts: Facts) -> Mapping[str, Any] | None:
    try:
        return facts.deployment()
    except NotPermittedError:
        raise
    except SkippedError:
        return None
