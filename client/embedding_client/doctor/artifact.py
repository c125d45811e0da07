"""The artifact in S3 that the serving version downloads when it is initialized."""

from typing import NamedTuple

from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok

__all__ = ["ObjectPlace", "check_artifact", "judge_artifact", "parse_place"]

_VARIABLE = "EMBEDDING_ARTIFACT_LOCATION"


class ObjectPlace(NamedTuple):
    """An object's bucket and key."""

    bucket: str
    key: str


def check_artifact(facts: Facts) -> Finding:
    """Look for the object in its bucket, without reading it."""
    variables = facts.variables()
    if _VARIABLE not in variables:
        raise SkippedError("the artifact is in the package")
    place = parse_place(variables[_VARIABLE])
    # HeadObject would need permission to read the weights.
    listed = facts.aws.find(
        "s3",
        "list_objects_v2",
        missing=("NoSuchBucket",),
        Bucket=place.bucket,
        Prefix=place.key,
        MaxKeys=1,
    )
    sizes = {item["Key"]: int(item["Size"]) for item in (listed or {}).get("Contents", [])}
    return judge_artifact(place, sizes.get(place.key))


def parse_place(location: str) -> ObjectPlace:
    """Parse `s3://BUCKET/KEY`."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return ObjectPlace(bucket, key)


def judge_artifact(place: ObjectPlace, size: int | None) -> Finding:
    """Judge the object.

    Args:
        place: Where the serving version downloads it.
        size: Its bytes; None if it does not exist.
    """
    if not size:
        what = "does not exist" if size is None else "is empty"
        return ill(
            f"s3://{place.bucket}/{place.key} {what}, and each initialization needs it",
            "scripts/deploy NAME uploads it again: docs/operations.md#a-large-model-as-a-zip",
        )
    return ok(f"{size / 1e6:.0f} MB in {place.bucket}", bytes=size)
