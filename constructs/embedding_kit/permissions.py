"""Permissions of roles, among them those of the S3 folders and KMS keys that settings name."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from embedding_kit.settings.locations import Location

#: Actions of S3 and of S3 Vectors:
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-data-encryption.html
READ_KEY = ("kms:Decrypt",)
WRITE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")


def allow(
    role: iam.IRole,
    actions: Sequence[str],
    on: Sequence[str],
    *,
    sid: str | None = None,
    conditions: Mapping[str, Any] | None = None,
) -> None:
    """Let a role do actions on resources."""
    role.add_to_principal_policy(
        iam.PolicyStatement(
            sid=sid, actions=list(actions), resources=list(on), conditions=conditions
        )
    )


def grant(
    grantee: iam.IGrantable,
    actions: Sequence[str],
    on: str,
    conditions: Mapping[str, Any] | None = None,
) -> iam.Grant:
    """Grant actions on a resource by the principal's own policy."""
    return iam.Grant.add_to_principal(
        grantee=grantee, actions=list(actions), resource_arns=[on], conditions=conditions
    )


def allow_listing(role: iam.IRole, sid: str, location: Location) -> None:
    """Let a role list the files of a folder."""
    only = {"StringLike": {"s3:prefix": f"{location.prefix}*"}} if location.prefix else None
    allow(role, ["s3:ListBucket"], [_bucket(location)], sid=sid, conditions=only)


def allow_keys(
    role: iam.IRole, sid: str, actions: Sequence[str], keys: Sequence[str], location: Location
) -> None:
    """Let a role use KMS keys through S3, for the objects of a folder's bucket alone.

    So a list of keys gives no role more than the data that it may read or write in S3.
    """
    if not keys:
        return
    bucket = _bucket(location)
    conditions = {
        "StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.amazonaws.com"},
        # The bucket's ARN with an S3 Bucket Key, the object's without.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [bucket, f"{bucket}/*"]},
    }
    allow(role, actions, keys, sid=sid, conditions=conditions)


def objects(location: Location, name: str = "*") -> str:
    """Return the ARN of the objects in a folder; `name` may have wildcards."""
    return f"{_bucket(location)}/{location.prefix}{name}"


def _bucket(location: Location) -> str:
    return f"arn:{Aws.PARTITION}:s3:::{location.bucket}"
