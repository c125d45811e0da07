"""The parts besides the endpoint: batch jobs, an API in front, and a server's network."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stacks.names import batch_stack_name, front_stack_name
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.checks import ask, same_vector
from tools.rehearsal.deploy.emulator import Emulator

_BUCKETS = ("rehearsal-documents", "rehearsal-vectors")
_SOURCE, _DESTINATION = (f"s3://{bucket}/batch/" for bucket in _BUCKETS)
#: The settings of `[batch]` and of `[front]`.
BATCH_SETTINGS = {"input": _SOURCE, "output": _DESTINATION, "max_concurrency": 2}
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


def check_front(cdk: Cdk, url: str) -> None:
    """Send requests to the deployed API, with its key and without one."""
    aws, name = cdk.aws, cdk.checkout.environment
    listed = aws.client("cloudformation").list_stack_resources(StackName=front_stack_name(name))
    (api,) = (
        item["PhysicalResourceId"]
        for item in listed["StackResourceSummaries"]
        if item["ResourceType"] == "AWS::ApiGateway::RestApi"
    )
    keys = aws.client("apigateway").get_api_keys(
        nameQuery=f"embedding-kit-{name}-rehearsal-", includeValues=True
    )
    (key,) = (item["value"] for item in keys["items"])
    address, body = f"{aws.url}/_aws/execute-api/{api}/live/", {"text": "hello, embedding"}
    with cdk.report.step("calling the API in front with its key, and without one"):
        answer = aws.post(address, body, headers={"x-api-key": key})
        refused = aws.post(address, body)
        by_url = ask(aws, url)
    check = "a request with a key gets the vector of the Function URL, to the last bit"
    cdk.report.check(check, same_vector(answer, by_url), answer.status_code)
    check = "one without a key gets 401"
    cdk.report.check(check, refused.status_code == 401, refused.status_code)


def check_batch(cdk: Cdk) -> None:
    """Start a job with the client, follow it, and resume it."""
    s3 = cdk.aws.client("s3")
    for bucket in _BUCKETS:
        s3.create_bucket(Bucket=bucket)
    lines = [json.dumps({"key": f"a{n}", "body": f"line {n}"}) for n in range(19)]
    rejected = json.dumps({"key": "none", "body": ""})
    s3.put_object(Bucket=_BUCKETS[0], Key="batch/a.jsonl", Body="\n".join([*lines, rejected]))
    cells = "\n".join(f'b{n},"cell {n}"' for n in range(20))
    s3.put_object(Bucket=_BUCKETS[0], Key="batch/b.csv", Body=f"key,body\n{cells}")
    machine = cdk.aws.outputs(batch_stack_name(cdk.checkout.environment))["StateMachineArn"]
    variables = cdk.aws.variables() | {"EMBEDDING_BATCH": machine}

    def run(*arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("embed")), "batch", *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        cdk.report.need(f"embed batch {arguments[0]} succeeds", not done.returncode, done.stderr)
        return done.stdout.strip()

    with cdk.report.step("embed batch: start, follow and resume a job"):
        columns = ("--text", "body", "--id", "key", "--max-rejected-percent", "5")
        job = run("start", _SOURCE, _DESTINATION, *columns)
        first = json.loads(run("status", job, "--follow", "--json"))
        second = json.loads(run("status", run("resume", job), "--follow", "--json"))
    result, progress = first["result"] or {}, first["progress"] or {}
    counts = [found.get(name) for found in (result, progress) for name in ("rows", "rejected")]
    check = "the job embeds 39 rows and rejects one, and its status adds them up with a cost"
    cdk.report.check(check, counts == [39, 1, 39, 1] and progress["cost"] > 0, counts)
    same = second["result"] == result and second["progress"]["cost"] == progress["cost"]
    cdk.report.check("resumed, it embeds no shard again", same, second["state"])
