"""Test the bucket of artifacts: what it keeps, and who may read and write it."""

import pytest
from aws_cdk.assertions import Template

from embedding_kit import ArtifactBucket
from tests.embedding_kit.roles import HOME, allowed_by, only, resolved

NAME = f"kit-dev-{HOME}-us-east-1"
BUCKET = f"arn:aws:s3:::{NAME}"
ARTIFACT = f"{BUCKET}/artifact/0123"


def role(name: str, *, region: str = "us-east-1", qualifier: str = "hnb659fds") -> str:
    return f"arn:aws:iam::{HOME}:role/cdk-{qualifier}-{name}-role-{HOME}-{region}"


PUBLISHER, DEPLOYER, CREATOR = role("file-publishing"), role("deploy"), role("cfn-exec")


@pytest.fixture(scope="session")
def template(synthesize) -> Template:
    return synthesize(
        lambda stack: ArtifactBucket(
            stack, "Artifacts", name="kit-dev-${AWS::AccountId}-${AWS::Region}"
        )
    )


#: What `cdk deploy` does, with roles that may use bootstrap's bucket alone.
MAY = [
    (PUBLISHER, "s3:GetBucketLocation", BUCKET),
    (PUBLISHER, "s3:GetEncryptionConfiguration", BUCKET),
    (PUBLISHER, "s3:ListBucket", BUCKET),
    (PUBLISHER, "s3:PutObject", ARTIFACT),
    (PUBLISHER, "s3:AbortMultipartUpload", ARTIFACT),
    (DEPLOYER, "s3:GetObject", f"{BUCKET}/0123.json"),
    (CREATOR, "s3:GetObject", f"{BUCKET}/0123"),
]
MAY_NOT = [
    (PUBLISHER, "s3:DeleteObject", ARTIFACT),
    (PUBLISHER, "s3:DeleteBucket", BUCKET),
    (PUBLISHER, "s3:PutBucketPolicy", BUCKET),
    (PUBLISHER, "s3:PutLifecycleConfiguration", BUCKET),
    (DEPLOYER, "s3:PutObject", ARTIFACT),
    (DEPLOYER, "s3:ListBucket", BUCKET),
    (CREATOR, "s3:PutObject", ARTIFACT),
    (role("image-publishing"), "s3:GetObject", ARTIFACT),
    (role("file-publishing", region="eu-west-1"), "s3:PutObject", ARTIFACT),
    (role("file-publishing", qualifier="other"), "s3:PutObject", ARTIFACT),
    (f"arn:aws:iam::{HOME}:role/other", "s3:GetObject", ARTIFACT),
]


def test_bootstraps_roles_publish_and_deploy_and_do_nothing_else(template):
    """No role may delete, and no other role may write or read."""
    document = only(template, "AWS::S3::BucketPolicy")["PolicyDocument"]
    policy = resolved(document, attribute=lambda *_: BUCKET)
    encrypted = {"aws:SecureTransport": "true"}
    may, may_not = ([(*case, encrypted) for case in cases] for cases in (MAY, MAY_NOT))
    assert allowed_by(may + may_not, resource_policy=policy) == may
