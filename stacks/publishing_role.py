"""Clients with the roles of `cdk bootstrap` that publish images and files."""

from typing import Any, Literal

from botocore.exceptions import ClientError
from botocore.session import Session

from stacks.bootstrap_qualifier import bootstrap_qualifier

__all__ = ["partition_domain", "publishing_client", "publishing_role"]


def publishing_role(kind: Literal["file", "image"], *, account: str, region: str) -> str:
    """Return the ARN of bootstrap's role that publishes images or files in a place."""
    partition = "aws-cn" if region.startswith("cn-") else "aws"
    role = f"cdk-{bootstrap_qualifier()}-{kind}-publishing-role-{account}-{region}"
    return f"arn:{partition}:iam::{account}:role/{role}"


def partition_domain(region: str) -> str:
    """Return the domain of the partition of a region."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def publishing_client(session: Session, service: str, *, role: str, region: str) -> Any:
    """Return a client with a role's credentials; with the caller's own if it may not assume it."""
    try:
        given = session.create_client("sts", region_name=region).assume_role(
            RoleArn=role, RoleSessionName="embedding-kit"
        )["Credentials"]
    except ClientError:
        return session.create_client(service, region_name=region)
    return session.create_client(
        service,
        region_name=region,
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )
