"""The buckets that a destroyed environment has left: those of its documents and of its artifacts.

CloudFormation retains both, because nothing brings documents back, and because old versions may
still download an artifact. Of a branch they are deleted: another deploy of it needs the name of the
artifacts' bucket. Documents of earlier deploys stay: a file may have had the branch's name.
"""

from collections.abc import Iterator
from typing import Any

from botocore.session import Session

from operations.deployed import deleted_stacks, list_events
from operations.environment_session import answer_or_none, read_account
from stacks.environment import EnvironmentSettings
from stacks.names import artifact_stack_name, index_stack_name

_BUCKET = "AWS::S3::Bucket"


def document_buckets(session: Session, environment: EnvironmentSettings) -> list[str]:
    """Return the buckets of documents that the destroyed environment has left."""
    return _retained_buckets(session, environment, index_stack_name(environment.name))


def delete_buckets(session: Session, environment: EnvironmentSettings) -> Iterator[str]:
    """Delete the buckets that the destroyed environment has left; yield what was deleted.

    Raises:
        ValueError: S3 did not delete an object.
    """
    client = session.create_client("s3", region_name=environment.region)
    artifacts = _retained_buckets(session, environment, artifact_stack_name(environment.name))
    documents = _retained_buckets(
        session, environment, index_stack_name(environment.name), deploys=1
    )
    owner = read_account(session, environment)
    for bucket in artifacts + documents:
        _empty(client, bucket, owner)
        client.delete_bucket(Bucket=bucket, ExpectedBucketOwner=owner)
        yield f"deleted the bucket {bucket} with its objects"


def _retained_buckets(
    session: Session, environment: EnvironmentSettings, stack: str, *, deploys: int | None = None
) -> list[str]:
    """Return the buckets that the last `deploys` of a stack have left. Default: all of 90 days."""
    region = environment.region
    stacks = session.create_client("cloudformation", region_name=region)
    if answer_or_none(stacks.describe_stacks, StackName=stack) is not None:
        return []
    # A bucket that was imported again has an event in each of its stacks.
    skipped = {
        bucket: None
        for deleted in deleted_stacks(stacks, stack)[:deploys]
        for resource_type, bucket, status in list_events(stacks, deleted)
        if (resource_type, status) == (_BUCKET, "DELETE_SKIPPED")
    }
    if not skipped:
        return []
    head = session.create_client("s3", region_name=region).head_bucket
    owner = read_account(session, environment)
    # An earlier run may have deleted it. One that another account has made since is refused.
    return [
        name for name in skipped if answer_or_none(head, Bucket=name, ExpectedBucketOwner=owner)
    ]


def _empty(client: Any, bucket: str, owner: str) -> None:
    owned = {"Bucket": bucket, "ExpectedBucketOwner": owner}
    for page in client.get_paginator("list_object_versions").paginate(**owned):
        versions = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        objects = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in versions]
        if not objects:
            continue
        answer = client.delete_objects(**owned, Delete={"Objects": objects, "Quiet": True})
        for error in answer.get("Errors", []):
            raise ValueError(f"{error['Key']} in the bucket {bucket} stays: {error.get('Code')}")
