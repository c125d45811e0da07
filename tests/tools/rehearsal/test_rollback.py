"""scripts/rollback of a stack in the emulated CloudFormation, Lambda and CodeDeploy."""

from uuid import uuid4

import pytest

from embedding_kit.settings import ModelSettings
from operations.prune import make_plan
from operations.reset_traffic import find_stuck_weights
from operations.rollback import roll_back
from stacks.environment import EnvironmentSettings

from .conftest import Root
from .emulated_release import Release

pytestmark = pytest.mark.slow


@pytest.fixture
def environment() -> EnvironmentSettings:
    return EnvironmentSettings(name=f"r{uuid4().hex[:8]}", model=ModelSettings(name="any/model"))


@pytest.fixture
def release(aws, function, environment, image):
    """Return the stack of an endpoint after its first deploy."""
    made = Release(aws, f"EmbeddingKit-{environment.name}-Endpoint", image)
    assert made.deploy("a") == "CREATE_COMPLETE"
    yield made
    made.cloudformation.delete_stack(StackName=made.name)


def test_a_template_over_51200_bytes_is_rolled_back(aws, release, environment, monkeypatch):
    """CloudFormation takes it only from a bucket: that of `cdk bootstrap`, as for a deploy."""
    aws.client("s3").create_bucket(Bucket=f"cdk-hnb659fds-assets-{aws.account}-{aws.region}")
    assert release.deploy("b", metadata={"padding": "x" * 51_200}) == "UPDATE_COMPLETE"
    assert release.alias() == ("2", {})
    assert "serves version 1" in roll_back(Root(aws), environment)
    assert (release.alias(), release.status()) == (("1", {}), "UPDATE_COMPLETE")
    assert roll_back(Root(aws), environment).endswith(
        "is rolled back already; nothing was changed. To choose a version: --version N"
    )


@pytest.mark.parametrize("pinned", [False, True], ids=["released", "rolled back"])
def test_a_deleted_alias_is_made_again_by_the_command_that_is_printed(
    aws, release, environment, pinned
):
    """Without it, no deploy can move it. Each script that needs it prints the same command."""
    session = Root(aws)
    if pinned:
        assert release.deploy("b") == "UPDATE_COMPLETE"
        roll_back(session, environment)
    assert release.alias() == ("1", {})
    release.lambda_.delete_alias(FunctionName=release.name, Name="live")
    commands = set()
    for script in (
        lambda: roll_back(session, environment),
        lambda: make_plan(session, environment, keep=1),
        lambda: find_stuck_weights(session, environment),
    ):
        with pytest.raises(ValueError, match=r"live, which .* was deleted by other means") as told:
            script()
        commands.add(str(told.value).partition("To make it again: ")[2])
    assert release.deploy("c") == "UPDATE_ROLLBACK_COMPLETE"
    with pytest.raises(ValueError, match="was deleted by other means") as told:
        find_stuck_weights(session, environment)
    (command,) = commands | {str(told.value).partition("To make it again: ")[2]}
    words = command.partition(",")[0].split()
    assert words[:3] == ["aws", "lambda", "create-alias"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    release.lambda_.create_alias(
        FunctionName=options["--function-name"],
        Name=options["--name"],
        FunctionVersion=options["--function-version"],
    )
    assert release.alias() == ("1", {})
    assert release.deploy("d") == "UPDATE_COMPLETE"
    assert release.alias()[0] == release.versions()[-1]
