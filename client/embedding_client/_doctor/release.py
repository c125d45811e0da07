"""The stacks, the last release, the version that serves, and weights on the alias."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import httpx

from embedding_client._doctor.probes import NotPermittedError
from embedding_client._doctor.results import CheckResult, SkippedError, ago, failed, ok, warning
from embedding_client._doctor.snapshot import Snapshot

#: https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_DeploymentInfo.html
_RUNNING = frozenset({"Created", "Queued", "InProgress", "Baking", "Ready"})
_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.[\w-]+\.amazonaws\.com(\.cn)?/(?P<repository>[^:@]+)"
    r"(:(?P<tag>[\w.-]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
#: A build that hides its time writes the epoch.
_EPOCH = timedelta(days=3650)


def check_stacks(snapshot: Snapshot) -> CheckResult:
    """Read the status of each stack of the environment."""
    if snapshot.asked.environment is not None and snapshot.stack() is None:
        name = snapshot.asked.environment
        place = f"{snapshot.identity()['Account']}, {snapshot.probes.region}"
        return failed(
            f"EmbeddingKit-{name}-Endpoint does not exist in {place}",
            f"scripts/deploy {name}, or choose another account (--profile) or region (--region)",
        )
    statuses = {stack["StackName"]: stack["StackStatus"] for stack in snapshot.stacks().values()}
    listed = snapshot.output("Observability", "Stacks")
    removed = statuses.keys() - listed.split(",") if listed else ()
    return stacks_result(statuses, removed=sorted(removed), name=snapshot.environment())


def stacks_result(
    statuses: Mapping[str, str], *, removed: Sequence[str] = (), name: str = ""
) -> CheckResult:
    """Decide on the statuses by the stack's name; the last deploy did not have `removed`."""

    def of(*ends: str) -> str:
        return ", ".join(f"{name}: {s}" for name, s in statuses.items() if s.endswith(ends))

    data = {"stacks": dict(statuses)}
    if broken := of("_FAILED"):
        advice = "docs/runbook.md#release has the command that completes it"
        return failed(broken, advice, **data)
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


def check_release(snapshot: Snapshot) -> CheckResult:
    """Read the last deployment of CodeDeploy."""
    return release_result(snapshot.deployment(), snapshot.probes.now())


def release_result(deployment: Mapping[str, Any] | None, now: datetime) -> CheckResult:
    """Decide on the state of the last deployment."""
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
    # A rollback is another deployment, which succeeds:
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


def check_version(snapshot: Snapshot) -> CheckResult:
    """Read the state of the version that serves."""
    return version_result(snapshot.function())


def version_result(configuration: Mapping[str, Any]) -> CheckResult:
    """Decide whether the version can run; one that is Active has pulled its image."""
    state = configuration.get("State", "Active")
    updated = configuration.get("LastUpdateStatus", "Successful")
    found = f"version {configuration['Version']} is {state}, {configuration['MemorySize']:,} MB"
    data = {"version": configuration["Version"], "state": state}
    if state == "Failed" or updated == "Failed":
        reason = configuration.get("StateReason") or configuration.get("LastUpdateStatusReason")
        return failed(
            f"{found} ({reason or 'no reason given'})",
            "if Lambda cannot pull the image, check the repository's policy and its images",
            **data,
        )
    if state != "Active":
        return warning(found, "an idle version starts at the next request: run it again", **data)
    return ok(found, **data)


def check_weights(snapshot: Snapshot) -> CheckResult:
    """Read the alias's weights, and what explains them."""
    alias = snapshot.alias_state()
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    if not weights:
        return weights_result(alias, by="", name="")
    stack = str((snapshot.stack() or {})["StackName"])
    body = snapshot.aws.call("cloudformation", "get_template", StackName=stack)["TemplateBody"]
    by = ""
    if any(
        resource["Type"] == "AWS::Lambda::Alias" and "RoutingConfig" in resource["Properties"]
        for resource in body["Resources"].values()
    ):
        by = "an experiment by weights"
    elif str((snapshot.stack() or {})["StackStatus"]).endswith("_IN_PROGRESS"):
        by = "a running update of the stack"
    else:
        deployment = _deployment(snapshot)
        if deployment is not None and deployment["status"] in _RUNNING:
            by = f"the running release {deployment['deploymentId']}"
    return weights_result(alias, by=by, name=snapshot.environment())


def weights_result(alias: Mapping[str, Any], *, by: str, name: str) -> CheckResult:
    """Decide on the weights of an alias; `by` is what explains them, or empty."""
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    if not weights:
        return ok(f"none: version {alias['FunctionVersion']} gets all requests")
    shares = {alias["FunctionVersion"]: 1 - sum(weights.values())} | weights
    found = ", ".join(f"version {version}: {share:.0%}" for version, share in shares.items())
    if by:
        return ok(f"{found}, by {by}", shares=shares)
    return failed(
        f"{found}, and no release is running: AWS refuses further releases",
        f"scripts/reset-traffic {name} (docs/runbook.md#stuck-weights)",
        shares=shares,
    )


def _deployment(snapshot: Snapshot) -> Mapping[str, Any] | None:
    try:
        return snapshot.deployment()
    except NotPermittedError:
        raise
    except SkippedError:
        return None


class Ages(NamedTuple):
    """When the first layer of an image was made, which is the base's, and when it was pushed."""

    base: datetime | None
    pushed: datetime | None


def check_image(snapshot: Snapshot) -> CheckResult:
    """Read the image's configuration from the repository."""
    alias = snapshot.alias()
    found = snapshot.aws.call(
        "lambda", "get_function", FunctionName=alias.function, Qualifier=alias.name
    )
    if found["Configuration"].get("PackageType", "Image") != "Image":
        raise SkippedError("no image: AWS patches the runtime of a zip")
    code = found["Code"]
    named = _URI.fullmatch(code.get("ResolvedImageUri") or code["ImageUri"])
    if named is None:
        raise SkippedError("the image is in no repository of ECR")
    image = {"imageDigest": named["digest"]} if named["digest"] else {"imageTag": named["tag"]}
    where = {"registryId": named["account"], "repositoryName": named["repository"]}
    described = snapshot.aws.call("ecr", "describe_images", imageIds=[image], **where)
    (detail,) = described["imageDetails"]
    config = _config(snapshot, image, where)
    return image_result(
        ages_of(config, detail.get("imagePushedAt")),
        now=snapshot.probes.now(),
        days=snapshot.asked.image_days,
    )


def ages_of(config: dict[str, Any], pushed: datetime | None) -> Ages:
    """Return the ages from an image's configuration, as the OCI specifies it.

    https://github.com/opencontainers/image-spec/blob/main/config.md
    """
    created = [
        datetime.fromisoformat(e["created"]) for e in config.get("history", []) if "created" in e
    ]
    return Ages(created[0] if created else None, pushed)


def image_result(ages: Ages, *, now: datetime, days: int) -> CheckResult:
    """Decide on the age of the base image, or without it that of the push."""
    base, pushed = ages
    if base is not None and now - base > _EPOCH:
        base = None
    at = base or pushed
    if at is None:
        raise SkippedError("neither the image nor the repository has a date")
    age = (now - at).days
    what = "made" if base else "unknown; the image was pushed"
    found = f"{what} {age} days ago"
    if age > days:
        return warning(
            f"{found}, which is more than {days}",
            "build it on the newest base image: docs/releases.md#a-patched-base-image",
            days=age,
        )
    return ok(found, days=age)


def _config(snapshot: Snapshot, image: dict[str, str], where: dict[str, str]) -> dict[str, Any]:
    """Read the image's configuration, a JSON file of some kilobytes; empty if there is none."""
    images = snapshot.aws.call("ecr", "batch_get_image", imageIds=[image], **where)["images"]
    manifest = json.loads(images[0]["imageManifest"]) if images else {}
    digest = manifest.get("config", {}).get("digest")
    if digest is None:
        return {}
    url = snapshot.aws.call("ecr", "get_download_url_for_layer", layerDigest=digest, **where)
    try:
        answer = snapshot.probes.web.get(url["downloadUrl"])
        config: dict[str, Any] = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return {}
    return config
