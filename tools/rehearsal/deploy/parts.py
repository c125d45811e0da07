"""The parts besides the endpoint: settings of batch jobs and of an API, and a server's network."""

import hashlib
from typing import Any

from tools.rehearsal.deploy.emulator import Emulator

#: The settings of `[batch]` and of `[front]`.
BATCH_SETTINGS = {
    "input": "s3://rehearsal-documents/batch/",
    "output": "s3://rehearsal-vectors/batch/",
    "max_concurrency": 2,
}
FRONT_SETTINGS: dict[str, Any] = {
    "callers": [{"name": "rehearsal", "rate": 10, "burst": 10}],
    "firewall": {"requests_per_five_minutes": 1000},
}
_NETWORK = "10.0.0.0/16"
_KEY_LINE = f"rehearsal:{hashlib.sha256(b'a key').hexdigest()}"


def make_network(aws: Emulator, *, lines: str = _KEY_LINE) -> dict[str, Any]:
    """Create what exists before a server's stack; return the settings of `[server]`."""
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock=_NETWORK)["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24")["Subnet"]["SubnetId"]
        for number in (1, 2)
    ]
    secret = aws.client("secretsmanager").create_secret(Name="embedding-keys", SecretString=lines)
    return {
        "vpc": vpc,
        "subnets": subnets,
        "clients": [_NETWORK],
        "certificate": f"arn:aws:acm:{aws.region}:{aws.account}:certificate/1234abcd",
        "domain_name": "embeddings.example.com",
        "keys_secret": secret["ARN"],
        "maximum": 4,
    }


def set_log_role(aws: Emulator) -> None:
    """Set the account's role for API Gateway's logs, without which scripts/deploy stops."""
    role = f"arn:aws:iam::{aws.account}:role/rehearsal-logs"
    change = {"op": "replace", "path": "/cloudwatchRoleArn", "value": role}
    aws.client("apigateway").update_account(patchOperations=[change])
