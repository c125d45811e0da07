"""Clients with the roles of `cdk bootstrap`, which the CDK's command uses too."""

import functools
import re
from typing import Any, Literal

from botocore.exceptions import ClientError
from botocore.loaders import Loader
from botocore.session import Session

from stacks.names import bootstrap_qualifier

#: What a role may do: publish files or images, or change stacks.
Purpose = Literal["file-publishing", "image-publishing", "deploy"]


def bootstrap_role(purpose: Purpose, *, account: str, region: str) -> str:
    """Return the ARN of bootstrap's role for a purpose."""
    role = f"cdk-{bootstrap_qualifier()}-{purpose}-role-{account}-{region}"
    return f"arn:{_partition(region)['name']}:iam::{account}:role/{role}"


def partition_domain(region: str) -> str:
    """Return the domain of the partition of a region."""
    return _partition(region)["dnsSuffix"]


@functools.cache
def _partition(region: str) -> dict[str, str]:
    """Return botocore's description of the partition of a region."""
    for partition in Loader().load_data("partitions")["partitions"]:
        if re.match(partition["regionRegex"], region):
            found: dict[str, str] = partition["outputs"]
            return found
    raise ValueError(f"there is no region {region}; allowed: a region of AWS, such as us-east-1")


def bootstrap_client(
    session: Session, service: str, purpose: Purpose, *, account: str, region: str
) -> Any:
    """Return a client with a role's credentials; with the caller's own if it may not assume it."""
    role = bootstrap_role(purpose, account=account, region=region)
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
