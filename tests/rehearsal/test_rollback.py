"""scripts/rollback of a stack in the emulated CloudFormation, Lambda and CodeDeploy."""

from uuid import uuid4

import pytest

from embedding_kit.environment import Environment
from embedding_kit.settings import Model
from stacks.rollback import roll_back

from .test_emulated_releases import Release
from .test_promotion import _Root


@pytest.fixture
def environment() -> Environment:
    return Environment(name=f"r{uuid4().hex[:8]}", model=Model(name="any/model"))


@pytest.fixture
def release(aws, function, environment):
    """Return the stack of an endpoint after its first deploy."""
    made = Release(aws, f"EmbeddingKit-{environment.name}-Endpoint")
    assert made.deploy("a") == "CREATE_COMPLETE"
    yield made
    made.cloudformation.delete_stack(StackName=made.name)


def test_a_template_over_51200_bytes_is_rolled_back(aws, release, environment, monkeypatch):
    """CloudFormation takes it only from a bucket: that of `cdk bootstrap`, as for a deploy."""
    monkeypatch.setattr("stacks.publishing_role.get_session", lambda: _Root(aws))
    aws.client("s3").create_bucket(Bucket=f"cdk-hnb659fds-assets-{aws.account}-{aws.region}")
    assert release.deploy("b", metadata={"padding": "x" * 51_200}) == "UPDATE_COMPLETE"
    assert release.alias() == ("2", {})
    assert "serves version 1" in roll_back(_Root(aws), environment)
    assert (release.alias(), release.status()) == (("1", {}), "UPDATE_COMPLETE")
    assert "rolled back already" in roll_back(_Root(aws), environment)
