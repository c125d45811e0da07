"""A server in the emulated AWS: its stack, and requests through its load balancer.

The emulated ECS starts no container. So the server runs as a process of this machine, with the code
of its image, the variables and the command of the task's definition, and the keys that the role of
the task may read, and is registered with the load balancer as ECS would do.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stacks.names import server_stack_name
from tools.rehearsal.deploy.callers import CALLER
from tools.rehearsal.deploy.calls import Response, request, send
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.asset import image_assets
from tools.rehearsal.image.report import Report

__all__ = ["check_server", "make_network"]

_KEY = "the key of the rehearsal"
_LINE = f"rehearsal:{hashlib.sha256(_KEY.encode()).hexdigest()}"
_NETWORK = "10.0.0.0/16"
_BODY = {"text": "hello, embedding"}
_BY = "the emulated ECS and load balancer, which forwards to a process with the server's code"


def make_network(aws: Emulator, *, lines: str = _LINE) -> dict[str, Any]:
    """Create what exists before the stack; return the settings of `[server]`.

    Args:
        aws: The emulated AWS.
        lines: The secret with the lines of the keys.
    """
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


def check_server(report: Report, cdk: Cdk, *, assembly: Path, url: str) -> None:
    """Check the deployed stack, and send requests through its load balancer.

    Args:
        report: The report of the checks.
        cdk: Runs the scripts.
        assembly: The deployed assembly.
        url: The endpoint's Function URL.
    """
    aws, stack = cdk.aws, server_stack_name(cdk.checkout.environment)
    ids = _resources(aws, stack)
    definition = aws.client("ecs").describe_task_definition(
        taskDefinition=ids["AWS::ECS::TaskDefinition"]
    )["taskDefinition"]
    role = definition["executionRoleArn"]
    with (
        report.step("running the server, and calling it through its load balancer"),
        _task(aws, _container(assembly, stack), role=role, assembly=assembly) as (address, process),
    ):
        aws.client("elbv2").register_targets(
            TargetGroupArn=ids["AWS::ElasticLoadBalancingV2::TargetGroup"],
            Targets=[{"Id": address[0], "Port": address[1]}],
        )
        (balancer,) = aws.client("elbv2").describe_load_balancers(
            LoadBalancerArns=[ids["AWS::ElasticLoadBalancingV2::LoadBalancer"]]
        )["LoadBalancers"]
        answers = [_call(aws, balancer["LoadBalancerName"], key) for key in (_KEY, None)]
        process.terminate()
        status = process.wait()
    by_url = send(aws, url, _BODY, who=aws.assume(f"arn:aws:iam::{aws.account}:role/{CALLER}"))
    same = ("embedding", "vector_space")
    equal = answers[0].status == by_url.status == 200 and all(
        answers[0].json()[name] == by_url.json()[name] for name in same
    )
    report.check(
        "server",
        "a request with a key gets the vector of the Function URL, to the last bit",
        equal,
        by=_BY,
        found=f"{answers[0].status}, {by_url.status}",
    )
    report.check(
        "server",
        "a request without a key gets 401, and the process exits with 0 after SIGTERM",
        [answers[1].status, status] == [401, 0],
        by=_BY,
        found=f"{answers[1].status}, status {status}",
    )


def _resources(aws: Emulator, stack: str) -> dict[str, str]:
    """Return physical ids by type, of the types of which the stack has one."""
    listed = aws.client("cloudformation").list_stack_resources(StackName=stack)
    return {
        item["ResourceType"]: str(item["PhysicalResourceId"])
        for item in listed["StackResourceSummaries"]
    }


def _container(assembly: Path, stack: str) -> dict[str, Any]:
    """Return the container of the task's definition, from the template.

    MiniStack's own answer leaves the secrets out.
    """
    template = json.loads((assembly / f"{stack}.template.json").read_text())
    (task,) = (
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::ECS::TaskDefinition"
    )
    (container,) = task["ContainerDefinitions"]
    return dict(container)


@contextmanager
def _task(
    aws: Emulator, container: Mapping[str, Any], *, role: str, assembly: Path
) -> Iterator[tuple[tuple[str, int], "subprocess.Popen[str]"]]:
    """Run a container as a process, with its secrets as a role; yield its address, and it."""
    secrets = aws.client("secretsmanager", aws.assume(role))
    (image,) = (asset for asset in image_assets(assembly) if asset.target == "server")
    variables = {
        "PATH": os.environ["PATH"],
        "EMBEDDING_ARTIFACT": str(image.context / "artifact"),
        **{item["Name"]: item["Value"] for item in container["Environment"]},
        **{
            item["Name"]: secrets.get_secret_value(SecretId=item["ValueFrom"])["SecretString"]
            for item in container["Secrets"]
        },
    }
    command = [*container["EntryPoint"], *container["Command"]]
    own = ["--host", "127.0.0.1", "--port", "0", "--drain-accept", "0"]
    process = subprocess.Popen(
        [sys.executable, *command[1:], *own],
        cwd=image.context,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.stderr.readline() if process.stderr else ""
        ready = re.fullmatch(r"ready at http://([\d.]+):(\d+)\n", said)
        if ready is None:
            raise RuntimeError(f"the server does not start: {said}")
        yield (ready[1], int(ready[2])), process
    finally:
        process.kill()
        process.communicate()


def _call(aws: Emulator, balancer: str, key: str | None) -> Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return request(aws, f"/_alb/{balancer}/", _BODY, headers=headers)
