"""The stacks, the last release, the version that serves, and weights on the alias."""

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import httpx2

from embedding_client.doctor import CheckResult, SkippedError, ago, failed, ok, warning
from embedding_client.doctor.probes import NotPermittedError
from embedding_client.doctor.snapshot import Snapshot

#: The states of a deployment that has not ended:
#: https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_DeploymentInfo.html
RUNNING = ("Created", "Queued", "InProgress", "Baking", "Ready")
_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.[\w-]+\.amazonaws\.com(\.cn)?/(?P<repository>[^:@]+)"
    r"(:(?P<tag>[\w.-]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
#: A build that hides its time writes the epoch.
_EPOCH = timedelta(days=3650)


def check_stacks(snapshot: Snapshot) -> CheckResult:
    """Read the status of each stack of the environment."""
    if snapshot.options.environment is not None and snapshot.stack() is None:
        name = snapshot.options.environment
        account = f"{snapshot.identity()['Account']}, {snapshot.region}"
        return failed(
            f"EmbeddingKit-{name}-Endpoint does not exist in {account}",
            f"scripts/deploy {name}, or choose another account (--profile) or region (--region)",
        )
    statuses = {stack["StackName"]: stack["StackStatus"] for stack in snapshot.stacks().values()}

    def of(*ends: str) -> str:
        return ", ".join(f"{name}: {s}" for name, s in statuses.items() if s.endswith(ends))

    if broken := of("_FAILED"):
        advice = "docs/runbook.md#release has the command that completes it"
        return failed(broken, advice, stacks=statuses)
    if running := of("_IN_PROGRESS"):
        return warning(running, "wait until it ends, and run it again", stacks=statuses)
    if rolled_back := of("ROLLBACK_COMPLETE"):
        return warning(
            rolled_back,
            "the last deploy was rolled back, and the previous version serves: "
            "docs/runbook.md#release",
            stacks=statuses,
        )
    listed = snapshot.output("Observability", "Stacks")
    if listed and (removed := sorted(statuses.keys() - listed.split(","))):
        return warning(
            f"the last deploy did not have {', '.join(removed)}: deployed, reachable and billed",
            f"scripts/destroy {snapshot.environment()} --removed",
            stacks=statuses,
        )
    return ok(f"{len(statuses)} stacks are complete", stacks=statuses)


def check_release(snapshot: Snapshot) -> CheckResult:
    """Read the last deployment of CodeDeploy."""
    deployment = snapshot.deployment()
    if deployment is None:
        return ok("no release has replaced a version yet")
    status, name = deployment["status"], deployment["deploymentId"]
    at = deployment.get("completeTime") or deployment.get("createTime")
    summary = f"{name}: {status}" + (f", {ago(snapshot.clock() - at)}" if at else "")
    data = {"deployment": name, "status": status}
    if status in RUNNING:
        return warning(summary, "wait until it ends, and run it again", **data)
    rollback = deployment.get("rollbackInfo", {})
    reason = rollback.get("rollbackMessage") or deployment.get("errorInformation", {}).get(
        "message"
    )
    # A rollback is another deployment, which succeeds:
    # https://docs.aws.amazon.com/codedeploy/latest/userguide/deployments-rollback-and-redeploy.html
    if is_rollback := deployment.get("creator") == "codeDeployRollback":
        reason = f"it rolled {rollback.get('rollbackTriggeringDeploymentId', 'one')} back"
    if status == "Succeeded" and not is_rollback:
        return ok(summary, **data)
    return warning(
        f"{summary}{f' ({reason})' if reason else ''}",
        "the previous version serves: find the reason, and deploy again: docs/runbook.md#release",
        **data,
    )


def check_version(snapshot: Snapshot) -> CheckResult:
    """Read the state of the version that serves; one that is Active has pulled its image."""
    configuration = snapshot.function()
    state = configuration.get("State", "Active")
    updated = configuration.get("LastUpdateStatus", "Successful")
    summary = f"version {configuration['Version']} is {state}, {configuration['MemorySize']:,} MB"
    data = {"version": configuration["Version"], "state": state}
    if state == "Failed" or updated == "Failed":
        reason = configuration.get("StateReason") or configuration.get("LastUpdateStatusReason")
        return failed(
            f"{summary} ({reason or 'no reason given'})",
            "if Lambda cannot pull the image, check the repository's policy and its images",
            **data,
        )
    if state != "Active":
        return warning(summary, "an idle version starts at the next request: run it again", **data)
    return ok(summary, **data)


def check_weights(snapshot: Snapshot) -> CheckResult:
    """Read the alias's weights, and what explains them."""
    alias = snapshot.alias()
    state = snapshot.aws.call("lambda", "get_alias", FunctionName=alias.function, Name=alias.name)
    shares = traffic_shares(state)
    if len(shares) == 1:
        return ok(f"none: version {state['FunctionVersion']} gets all requests")
    summary = ", ".join(f"version {version}: {share:.0%}" for version, share in shares.items())
    if by := _explanation(snapshot):
        return ok(f"{summary}, by {by}", shares=shares)
    return failed(
        f"{summary}, and no release is running: AWS refuses further releases",
        f"scripts/reset-traffic {snapshot.environment()} (docs/runbook.md#stuck-weights)",
        shares=shares,
    )


def traffic_shares(alias: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of the requests by version; the alias's own version comes first."""
    routing = alias.get("RoutingConfig") or {}
    weights: dict[str, float] = routing.get("AdditionalVersionWeights", {})
    return {alias["FunctionVersion"]: 1 - sum(weights.values())} | weights


def _explanation(snapshot: Snapshot) -> str | None:
    """Return what gives an alias weights; None if nothing does."""
    stack = snapshot.stack() or {}
    body = snapshot.aws.call("cloudformation", "get_template", StackName=stack["StackName"])
    if any(
        resource["Type"] == "AWS::Lambda::Alias" and "RoutingConfig" in resource["Properties"]
        for resource in body["TemplateBody"]["Resources"].values()
    ):
        return "an experiment by weights"
    if stack["StackStatus"].endswith("_IN_PROGRESS"):
        return "a running update of the stack"
    try:
        deployment = snapshot.deployment()
    except NotPermittedError:
        raise
    except SkippedError:
        return None
    if deployment is None or deployment["status"] not in RUNNING:
        return None
    return f"the running release {deployment['deploymentId']}"


def check_image(snapshot: Snapshot) -> CheckResult:
    """Read the image's configuration from the repository."""
    alias = snapshot.alias()
    function = snapshot.aws.call(
        "lambda", "get_function", FunctionName=alias.function, Qualifier=alias.name
    )
    if function["Configuration"].get("PackageType", "Image") != "Image":
        raise SkippedError("no image: AWS patches the runtime of a zip")
    code = function["Code"]
    named = _URI.fullmatch(code.get("ResolvedImageUri") or code["ImageUri"])
    if named is None:
        raise SkippedError("the image is in no repository of ECR")
    image = {"imageDigest": named["digest"]} if named["digest"] else {"imageTag": named["tag"]}
    where = {"registryId": named["account"], "repositoryName": named["repository"]}
    described = snapshot.aws.call("ecr", "describe_images", imageIds=[image], **where)
    (detail,) = described["imageDetails"]
    base, pushed = _made(_config(snapshot, image, where)), detail.get("imagePushedAt")
    checked_at = snapshot.clock()
    if base is not None and checked_at - base > _EPOCH:
        base = None
    at = base or pushed
    if at is None:
        raise SkippedError("neither the image nor the repository has a date")
    age, days = (checked_at - at).days, snapshot.options.image_days
    summary = f"{'made' if base else 'unknown; the image was pushed'} {age} days ago"
    if age > days:
        return warning(
            f"{summary}, which is more than {days}",
            "build it on the newest base image: docs/releases.md#a-patched-base-image",
            days=age,
        )
    return ok(summary, days=age)


def _made(config: dict[str, Any]) -> datetime | None:
    """Return when an image's first layer was made, which is the base's; None if it is not said.

    https://github.com/opencontainers/image-spec/blob/main/config.md
    """
    dates = (entry["created"] for entry in config.get("history", []) if "created" in entry)
    return next(map(datetime.fromisoformat, dates), None)


def _config(snapshot: Snapshot, image: dict[str, str], where: dict[str, str]) -> dict[str, Any]:
    """Read the image's configuration, a JSON file of some kilobytes; empty if there is none."""
    images = snapshot.aws.call("ecr", "batch_get_image", imageIds=[image], **where)["images"]
    manifest = json.loads(images[0]["imageManifest"]) if images else {}
    digest = manifest.get("config", {}).get("digest")
    if digest is None:
        return {}
    url = snapshot.aws.call("ecr", "get_download_url_for_layer", layerDigest=digest, **where)
    try:
        answer = snapshot.web.get(url["downloadUrl"])
        config: dict[str, Any] = answer.raise_for_status().json()
    except (httpx2.HTTPError, ValueError):
        return {}
    return config
