"""The age of the base image."""

import json
import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import httpx

from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, SkippedError, ok, warning

__all__ = ["Ages", "ages_of", "check_image", "judge_image"]

_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.[\w-]+\.amazonaws\.com(\.cn)?/(?P<repository>[^:@]+)"
    r"(:(?P<tag>[\w.-]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
#: A build that hides its time writes the epoch.
_EPOCH = timedelta(days=3650)


class Ages(NamedTuple):
    """When the first layer of an image was made, which is the base's, and when it was pushed."""

    base: datetime | None
    pushed: datetime | None


def check_image(facts: Facts) -> Finding:
    """Read the image's configuration from the repository."""
    alias = facts.alias()
    found = facts.aws.call(
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
    described = facts.aws.call("ecr", "describe_images", imageIds=[image], **where)
    (detail,) = described["imageDetails"]
    config = _config(facts, image, where)
    return judge_image(
        ages_of(config, detail.get("imagePushedAt")),
        now=facts.outside.now(),
        days=facts.asked.image_days,
    )


def ages_of(config: dict[str, Any], pushed: datetime | None) -> Ages:
    """Return the ages from an image's configuration, as the OCI specifies it.

    https://github.com/opencontainers/image-spec/blob/main/config.md
    """
    created = [
        datetime.fromisoformat(e["created"]) for e in config.get("history", []) if "created" in e
    ]
    return Ages(created[0] if created else None, pushed)


def judge_image(ages: Ages, *, now: datetime, days: int) -> Finding:
    """Judge the age of the base image, or without it that of the push."""
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


def _config(facts: Facts, image: dict[str, str], where: dict[str, str]) -> dict[str, Any]:
    """Read the image's configuration, a JSON file of some kilobytes; empty if there is none."""
    images = facts.aws.call("ecr", "batch_get_image", imageIds=[image], **where)["images"]
    manifest = json.loads(images[0]["imageManifest"]) if images else {}
    digest = manifest.get("config", {}).get("digest")
    if digest is None:
        return {}
    url = facts.aws.call("ecr", "get_download_url_for_layer", layerDigest=digest, **where)
    try:
        answer = facts.outside.web.get(url["downloadUrl"])
        config: dict[str, Any] = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return {}
    return config
