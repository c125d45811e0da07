"""The stack of a server in the emulated AWS: its load balancer forwards to a real server.

The stack is the construct's. ECS starts no container there, so the server runs in this process,
with the keys that the role of the tasks may read, and is registered as the task would be.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx2
import pytest
from aws_cdk import App, Stack
from botocore.exceptions import ClientError

from embedder.server.options import ServerOptions
from embedder.server.serve import load_keys
from embedding_kit import EmbeddingService, ModelSettings, ServerSettings
from tests.embedder.server.running import Running, running
from tests.fixtures.waiting import PATIENCE
from tools.rehearsal.deploy.checks import make_network
from tools.rehearsal.deploy.emulator import Emulator

pytestmark = pytest.mark.slow

LINE = f"search:{hashlib.sha256(b's1').hexdigest()}"


class Server(NamedTuple):
    """A deployed server."""

    aws: Emulator
    #: Physical ids by type.
    ids: dict[str, list[str]]
    secret: str
    other_secret: str

    def only(self, kind: str) -> str:
        """Return the physical id of the only resource of a type."""
        (found,) = self.ids[kind]
        return found


@pytest.fixture(scope="module")
def network(aws: Emulator) -> dict[str, Any]:
    """Create what exists before the stack, and a secret that is not the stack's."""
    other = aws.client("secretsmanager").create_secret(Name="other", SecretString="nothing to read")
    return {"settings": make_network(aws, lines=LINE), "other": other["ARN"]}


@pytest.fixture
def server(aws: Emulator, network: dict[str, Any], stack: Callable[..., None]) -> Server:
    """Deploy the stack."""
    settings = ServerSettings(**network["settings"])
    app = App(analytics_reporting=False)
    built = Stack(app, "Server")
    EmbeddingService(
        built, "Server", model=ModelSettings(name="any/model"), settings=settings, name="test"
    )
    stack("server", app.synth().get_stack_by_name("Server").template["Resources"])
    ids: dict[str, list[str]] = {}
    listed = aws.client("cloudformation").list_stack_resources(StackName="server")
    for resource in listed["StackResourceSummaries"]:
        ids.setdefault(resource["ResourceType"], []).append(resource["PhysicalResourceId"])
    return Server(aws, ids, network["settings"]["keys_secret"], network["other"])


@pytest.fixture
def task(server: Server) -> Iterator[Running]:
    """Run the server with the keys that ECS gives to a task, and register it as ECS would."""
    definition = server.aws.client("ecs").describe_task_definition(
        taskDefinition=server.only("AWS::ECS::TaskDefinition")
    )["taskDefinition"]
    who = server.aws.assume(definition["executionRoleArn"])
    secrets = server.aws.client("secretsmanager", who)
    lines = secrets.get_secret_value(SecretId=server.secret)["SecretString"]
    with pytest.raises(ClientError, match="AccessDenied"):
        secrets.get_secret_value(SecretId=server.other_secret)
    with running(keys=load_keys(ServerOptions(keys=lines))) as made:
        server.aws.client("elbv2").register_targets(
            TargetGroupArn=server.only("AWS::ElasticLoadBalancingV2::TargetGroup"),
            Targets=[{"Id": made.address[0], "Port": made.address[1]}],
        )
        yield made


def test_the_load_balancer_forwards_to_a_server_with_its_keys(server, task):
    """A caller with a key gets the vector of the server itself; one without gets 401."""
    elbv2 = server.aws.client("elbv2")
    (balancer,) = elbv2.describe_load_balancers(
        LoadBalancerArns=[server.only("AWS::ElasticLoadBalancingV2::LoadBalancer")]
    )["LoadBalancers"]
    assert balancer["Scheme"] == "internal"
    url = f"{server.aws.url}/_alb/{balancer['LoadBalancerName']}/v1/embeddings"
    body = {"model": "small", "input": "one two"}
    key = {"authorization": "Bearer s1"}
    answered = httpx2.post(url, json=body, headers=key, timeout=PATIENCE)
    assert answered.status_code == 200
    direct = task.post("/v1/embeddings", body, headers=key).json()
    # Each answer has an id of its own.
    assert answered.json() | {"id": direct["id"]} == direct
    assert httpx2.post(url, json=body, timeout=PATIENCE).status_code == 401
