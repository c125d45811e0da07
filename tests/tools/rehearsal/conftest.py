"""An emulated AWS, started once for all tests: it starts in a second."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.waiting import PATIENCE
from tools.rehearsal.deploy.deployed_functions import FunctionServer, Invocation, function_server
from tools.rehearsal.deploy.docker_client import push_empty
from tools.rehearsal.deploy.emulator import Emulator, emulator


def echo(invocation: Invocation) -> bytes:
    """Answer an event with a status and the event's path."""
    path = json.loads(invocation.event).get("rawPath")
    return json.dumps({"statusCode": 200, "body": path}).encode()


@pytest.fixture(scope="session")
def function() -> Iterator[FunctionServer]:
    """Start the server that receives the events of every function."""
    with function_server() as server:
        server.serve = echo
        yield server


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory, function: FunctionServer) -> Iterator[Emulator]:
    """Start the emulated AWS, with the plugin."""
    folder = tmp_path_factory.mktemp("aws")
    with emulator(folder, function_url=function.url) as running:
        yield running


class Root:
    """A session of the emulated account's root, also for bootstrap's role."""

    def __init__(self, aws: Emulator) -> None:
        self.aws = aws

    def create_client(self, service: str, *, region_name: str | None, **_: Any) -> Any:
        """Return a client of the emulated AWS."""
        assert region_name in {None, self.aws.region}
        return self.aws.client(service)

    def get_config_variable(self, name: str) -> str:
        """Return the region; no other variable is known."""
        return {"region": self.aws.region}[name]


@pytest.fixture
def session(aws: Emulator) -> Root:
    return Root(aws)


@pytest.fixture(scope="session")
def image(aws: Emulator) -> Callable[[str], dict[str, str]]:
    """Return a function that pushes an empty image, and returns it as the code of a function."""
    ecr = aws.client("ecr")

    def push(name: str) -> dict[str, str]:
        repository = name.partition(":")[0]
        with contextlib.suppress(ecr.exceptions.RepositoryAlreadyExistsException):
            ecr.create_repository(repositoryName=repository)
        push_empty(f"localhost:{aws.port}/{name}")
        return {"ImageUri": f"{aws.registry}/{name}"}

    return push


@pytest.fixture
def stack(aws: Emulator, image: Callable[[str], dict[str, str]]) -> Iterator[Callable[..., None]]:
    """Return a function that creates stacks, which are deleted after the test."""
    cloudformation, made = aws.client("cloudformation"), []

    def make(name: str, resources: dict[str, Any], outputs: dict[str, Any] | None = None) -> None:
        for resource in resources.values():
            # The CDK pushes the images of its assets before it deploys.
            match resource.get("Properties", {}).get("Code"):
                case {"ImageUri": {"Fn::Sub": str() as uri}}:
                    pushed = uri.replace("${AWS::AccountId}", aws.account)
                    image(pushed.replace("${AWS::Region}", aws.region).partition("/")[2])
        template = json.dumps({"Resources": resources, "Outputs": outputs or {}})
        cloudformation.create_stack(
            StackName=name, TemplateBody=template, Capabilities=["CAPABILITY_IAM"]
        )
        made.append(name)
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": PATIENCE}
        )

    yield make
    for name in made:
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": PATIENCE}
        )


@pytest.fixture
def shell(aws: Emulator, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Give this process the variables of the emulated AWS, as the shell of an operator."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in aws.variables().items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository."""
    return Path(__file__).resolve().parents[3]
