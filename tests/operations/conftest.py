"""The environments of the stacks' tests, and AWS: with prepared answers, or moto's."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.session import Session, get_session
from botocore.stub import Stubber
from moto import mock_aws

from operations import command
from stacks.environment import EnvironmentSettings
from tests.stacks.conftest import SHIPPED, environments, synthesized

__all__ = ["environments", "synthesized"]

#: One for all tests: it keeps the models of the services, which take most of a client's time.
SESSION = get_session()
STACK = "EmbeddingKit-dev-Endpoint"
HOME, REGION = "123456789012", "eu-central-1"


def dev_with(**tables: object) -> EnvironmentSettings:
    """Return the environment `dev` with these tables in its file."""
    model = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
    return EnvironmentSettings.model_validate({"name": "dev", "model": model, **tables})


class _Stubs(dict[str, Stubber]):
    """A stubbed client of each service that a test asks for."""

    def __missing__(self, name: str) -> Stubber:
        keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
        self[name] = Stubber(SESSION.create_client(name, region_name="us-east-1", **keys))
        self[name].activate()
        return self[name]


class Stubbed:
    """AWS clients with prepared answers; an unexpected call is an error."""

    day = datetime(2026, 11, 1, tzinfo=UTC)

    def __init__(self) -> None:
        self.stubs = _Stubs()

    def create_client(self, name: str, *, region_name: str | None) -> object:
        assert region_name is None
        return self.stubs[name].client

    def get_config_variable(self, name: str) -> str:
        assert name == "region"
        return "us-east-1"

    def stack(self, name: str, **attributes: object) -> dict[str, object]:
        """Return a stack as CloudFormation describes it."""
        named = {"StackName": name, "CreationTime": self.day, "StackStatus": "UPDATE_COMPLETE"}
        return {**named, **attributes}

    def deployed(self, *, status: str = "UPDATE_COMPLETE") -> None:
        """Answer that the endpoint of dev is deployed: the function `embedder`, alias `live`."""
        arn = f"arn:aws:lambda:us-east-1:{HOME}:function:embedder:live"
        outputs = [{"OutputKey": "AliasArn", "OutputValue": arn}]
        stack = self.stack(STACK, StackStatus=status, Outputs=outputs)
        self.stubs["cloudformation"].add_response(
            "describe_stacks", {"Stacks": [stack]}, {"StackName": STACK}
        )

    def template(self, template: dict[str, Any]) -> None:
        """Answer with the template of the endpoint's stack."""
        self.stubs["cloudformation"].add_response(
            "get_template", {"TemplateBody": json.dumps(template)}, {"StackName": STACK}
        )

    def group(self) -> None:
        """Describe the resources of CodeDeploy in the endpoint's stack of dev."""
        resources = [
            {
                "LogicalResourceId": resource_type,
                "ResourceType": f"AWS::CodeDeploy::{resource_type}",
                "PhysicalResourceId": f"the-{resource_type}",
                "LastUpdatedTimestamp": self.day,
                "ResourceStatus": "CREATE_COMPLETE",
            }
            for resource_type in ("Application", "DeploymentGroup")
        ]
        self.stubs["cloudformation"].add_response(
            "list_stack_resources", {"StackResourceSummaries": resources}, {"StackName": STACK}
        )

    def done(self) -> None:
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands read the environments as shipped: users edit theirs."""
    monkeypatch.setattr(command, "ENVIRONMENTS", SHIPPED)


@pytest.fixture
def session() -> Iterator[Stubbed]:
    """Return a session with prepared answers of AWS; the test must use each of them."""
    stubbed = Stubbed()
    yield stubbed
    stubbed.done()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Return a session of an empty account of moto's."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield get_session()
