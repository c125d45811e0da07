"""Buckets of the kit, and permissions for folders of S3 and KMS keys, as settings name them."""

from collections.abc import Sequence

from aws_cdk import Aws, Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from embedding_kit.settings.locations import Location

READ_KEY = ("kms:Decrypt",)
WRITE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
#: An interrupted upload leaves parts that are no object; they are deleted after this time.
_PARTS_KEPT = Duration.days(7)


def private_bucket(
    scope: Construct, id: str, *, name: str | None = None, key: kms.IKey | None
) -> s3.Bucket:
    """Create a bucket that only roles of the account read, by TLS, and that no deploy deletes."""
    return s3.Bucket(
        scope,
        id,
        bucket_name=name,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,
        # Deleted only if its creation is rolled back, because then it is empty.
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        lifecycle_rules=[
            s3.LifecycleRule(
                id="drop-what-an-upload-that-broke-off-has-left",
                abort_incomplete_multipart_upload_after=_PARTS_KEPT,
            )
        ],
    )


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


def allow_keys(
    role: iam.IRole, sid: str, actions: Sequence[str], keys: Sequence[str], location: Location
) -> None:
    """Let a role use KMS keys through S3, for the objects of a folder's bucket alone.

    So a list of keys gives no role more than the data that it may read or write in S3.
    """
    if not keys:
        return
    bucket = _bucket(location)
    role.add_to_principal_policy(
        iam.PolicyStatement(
            sid=sid,
            actions=list(actions),
            resources=list(keys),
            conditions={
                "StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.amazonaws.com"},
                # The bucket's ARN with an S3 Bucket Key, the object's without.
                # https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
                "StringLike": {"kms:EncryptionContext:aws:s3:arn": [bucket, f"{bucket}/*"]},
            },
        )
    )


def objects(location: Location, name: str = "*") -> str:
    """Return the ARN of the objects in a folder; `name` may have wildcards."""
    return f"{_bucket(location)}/{location.prefix}{name}"


def _bucket(location: Location) -> str:
    return f"arn:{Aws.PARTITION}:s3:::{location.bucket}"
