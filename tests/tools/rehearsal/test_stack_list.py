"""Stacks of tables that were removed from an environment's file, in the emulated AWS."""

import io
from functools import partial
from uuid import uuid4

import pytest

from embedding_kit.settings import (
    ApiGatewayFront,
    BatchSettings,
    FrontCaller,
    ModelSettings,
    VectorIndexSettings,
)
from operations import cleanup
from operations.cleanup import after_deploy, before_destroy
from operations.command import report_errors
from operations.environment_session import session_for
from stacks.environment import EnvironmentSettings
from tools.rehearsal.deploy.docker_client import push_empty

TOPIC = {"Topic": {"Type": "AWS::SNS::Topic"}}
FRONT = ApiGatewayFront(callers=(FrontCaller(name="search", rate=1, burst=1),))
BATCH = BatchSettings(input="s3://example-documents/texts/", output="s3://example-vectors/")


class _Account:
    """The stacks of an environment, and of another one with a longer name."""

    def __init__(self, aws, stack, environment):
        self.aws, self.stack = aws, stack
        self.environment = environment
        self.client = aws.client("cloudformation")

    def deploy(self, part, resources=None, *, environment=None):
        name = f"EmbeddingKit-{environment or self.environment.name}-{part}"
        self.stack(name, resources or TOPIC)
        return name

    def protect(self, name, *, on=True):
        self.client.update_termination_protection(StackName=name, EnableTerminationProtection=on)

    def stacks(self):
        pages = self.client.get_paginator("describe_stacks").paginate()
        return {stack["StackName"] for page in pages for stack in page["Stacks"]}

    def run(self, act, **options):
        session = session_for(self.environment, changes=options.get("force", False), ask=False)
        action = partial(act, session, self.environment, **options)
        return report_errors(action, failure="")


@pytest.fixture
def account(aws, stack, shell):
    """Return the account of an environment without [front]."""
    model = ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")
    return _Account(aws, stack, EnvironmentSettings(name=f"e{uuid4().hex[:8]}", model=model))


def test_a_deploy_names_what_the_file_no_longer_has(account, capsys):
    """With the command that destroys it. Stacks of other environments are not this one's."""
    name = account.environment.name
    for part in ("Endpoint", "Front", "Batch"):
        account.deploy(part)
    account.deploy("Front", environment=f"{name}-x")
    assert account.run(after_deploy) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"note: EmbeddingKit-{name}-{part} is still deployed, reachable and billed, though "
        f"environments/{name}.toml no longer has it; to destroy it: scripts/destroy {name} "
        "--removed"
        for part in ("Batch", "Front")
    ]
    account.environment = EnvironmentSettings(
        name=name, model=account.environment.model, batch=BATCH, front=FRONT
    )
    assert account.run(after_deploy) == 0
    assert capsys.readouterr().err == ""


def test_what_the_file_no_longer_has_can_be_destroyed_alone(account, shell, capsys):
    """The command that the deploy prints. The endpoint serves on; a second run finds nothing."""
    shell.setattr(cleanup, "end_provisioned_concurrency", lambda *_: pytest.fail("ended"))
    endpoint, front = account.deploy("Endpoint"), account.deploy("Front")
    other = account.deploy("Front", environment=f"{account.environment.name}-x")
    strange = account.deploy("Mine")
    for _ in range(2):
        assert account.run(before_destroy, force=True, only_removed=True) == 0
        assert front not in account.stacks()
    assert {endpoint, other, strange} <= account.stacks()
    assert capsys.readouterr().out.splitlines() == [
        f"{front}: destroying",
        f"{front}: destroyed",
        f"no stack of {account.environment.name} is deployed that its file no longer has",
    ]


@pytest.mark.parametrize("answer", ["n\n", "y\n"])
def test_a_destroy_asks_for_all_stacks_and_names_the_account(account, shell, capsys, answer):
    """Those that the CDK's command does not know are destroyed before its own."""
    endpoint, front = account.deploy("Endpoint"), account.deploy("Front")
    shell.setattr("sys.stdin", io.StringIO(answer))
    assert account.run(before_destroy, force=False, only_removed=False) == (answer != "y\n")
    assert capsys.readouterr().err.startswith(
        f"Destroy {front} (no longer in the file), {endpoint} in 123456789012, us-east-1? [y/N] "
    )
    assert (front in account.stacks()) == (answer != "y\n")
    assert endpoint in account.stacks()


def test_a_destroy_asks_before_it_deletes_vectors(account, shell, capsys):
    """The question names them, because nothing brings them back."""
    endpoint = account.deploy("Endpoint")
    account.environment = account.environment.model_copy(
        update={"index": VectorIndexSettings(), "removal_policy": "destroy"}
    )
    shell.setattr("sys.stdin", io.StringIO("n\n"))
    assert account.run(before_destroy, force=False, only_removed=False) == 1
    assert capsys.readouterr().err.startswith(
        f"Destroy {endpoint}, and the vectors of its index, in 123456789012, us-east-1? [y/N] "
    )


def _shown(name: str) -> str:
    """Return the note of a destroy that asks nothing."""
    return (
        f"note: environments/{name}.toml names no account; the credentials are of 123456789012, "
        "in us-east-1\n"
    )


@pytest.mark.parametrize("force", [False, True])
def test_the_protection_of_any_stack_stops_a_destroy_first(account, shell, capsys, force):
    """Nothing is ended or destroyed, whichever stack it is, and whether it is asked or not."""
    name = account.environment.name
    front = account.deploy("Front")
    observability = account.deploy("Observability")
    account.protect(observability)
    shell.setattr(cleanup, "end_provisioned_concurrency", lambda *_: pytest.fail("ended"))
    assert account.run(before_destroy, force=force, only_removed=False) == 1
    assert capsys.readouterr().err.removeprefix(_shown(name) if force else "") == (
        f"error: no stack with termination protection can be deleted; found: {observability}; "
        "nothing was changed. To turn it off: set termination_protection = false in "
        f"environments/{name}.toml, "
        f"scripts/deploy {name}\n"
    )
    assert {front, observability} <= account.stacks()
    # What is removed from the file can be destroyed without it.
    assert account.run(before_destroy, force=True, only_removed=True) == 0
    account.protect(observability, on=False)


def test_the_protection_of_a_removed_stack_is_turned_off_by_hand(account, capsys):
    """No deploy can do it any more. With the printed command, the same command works."""
    front = account.deploy("Front")
    account.protect(front)
    assert account.run(before_destroy, force=True, only_removed=True) == 1
    told = capsys.readouterr().err
    assert "nothing was changed. To turn it off: aws cloudformation update-termination-" in told
    assert f"--no-enable-termination-protection --stack-name {front}\n" in told
    account.protect(front, on=False)
    assert account.run(before_destroy, force=True, only_removed=True) == 0
    assert front not in account.stacks()


def test_a_stack_that_cannot_be_deleted_is_an_error_and_the_next_run_deletes_it(account, capsys):
    """The error has CloudFormation's reason. The rest of the environment stays."""
    name = account.environment.name
    repository = {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": name}}
    endpoint, front = account.deploy("Endpoint"), account.deploy("Front", {"Full": repository})
    push_empty(f"localhost:{account.aws.port}/{name}:image")
    assert account.run(before_destroy, force=True, only_removed=False) == 1
    told = capsys.readouterr().err
    assert told == _shown(name) + (
        f"error: {front} was not deleted: DELETE_FAILED, The following resource(s) failed to "
        "delete: [Full].; the same command tries again\n"
    )
    assert {front, endpoint} <= account.stacks()
    account.aws.client("ecr").batch_delete_image(
        repositoryName=name, imageIds=[{"imageTag": "image"}]
    )
    assert account.run(before_destroy, force=True, only_removed=False) == 0
    assert front not in account.stacks()
