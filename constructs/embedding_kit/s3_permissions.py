"""Permissions for folders of S3 and KMS keys, as settings name them."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from embedding_kit.settings.locations import Location

#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
READ_KEY = ("kms:Decrypt",)
WRITE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")


def allow(role: iam.IRole, sid: str, actions: Sequence[str], on: Sequence[str]) -> None:
    """Let a role do actions on resources."""
    role.add_to_principal_policy(
        iam.PolicyStatement(sid=sid, actions=list(actions), resources=list(on))
    )


def allow_listing(role: iam.IRole, sid: str, location: Location) -> None:
    """Let a role list the files of a folder."""
    role.add_to_principal_policy(
        iam.PolicyStatement(
            sid=sid,
            actions=["s3:ListBucket"],
            resources=[_bucket(location)],
            conditions={"StringLike": {"s3:prefix": f"{location.prefix}*"}}
            if location.prefix
            else None,
        )
    )


def objects(location: Location, name: str = "*") -> str:
    """Return the ARN of the objects in a folder; `name` may have wildcards."""
    return f"{_bucket(location)}/{location.prefix}{name}"


def shown(location: Location, name: str = "*") -> str:
    """Return the ARN of objects as cdk-nag writes it."""
    return objects(location, name).replace(Aws.PARTITION, "<AWS::Partition>")


def _bucket(location: Location) -> str:
    return f"arn:{Aws.PARTITION}:s3:::{location.bucket}"
