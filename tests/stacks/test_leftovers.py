"""What the CDK leaves billing, and how it is ended."""

from datetime import UTC, datetime

import pytest
from botocore.session import get_session
from botocore.stub import ANY, Stubber

from stacks import leftovers
from stacks.leftovers import end_provisioned_concurrency, main

ARN = "arn:aws:lambda:us-east-1:123456789012:function:embedder"


class _Session:
    """Clients of AWS whose answers are set before; an unexpected call is an error."""

    def __init__(self) -> None:
        names = ("cloudformation", "application-autoscaling", "lambda")
        session = get_session()
        self.clients = {
            name: session.create_client(
                name,
                region_name="us-east-1",
                aws_access_key_id="none",
                aws_secret_access_key="none",
            )
            for name in names
        }
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}

    def create_client(self, name: str, *, region_name: str | None) -> object:
        assert region_name is None
        self.stubs[name].activate()
        return self.clients[name]

    def done(self) -> None:
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()


@pytest.fixture
def session():
    made = _Session()
    yield made
    made.done()


def _deployed(session: _Session) -> None:
    stack = {
        "StackName": "EmbeddingKit-dev-Endpoint",
        "CreationTime": datetime(2026, 11, 1, tzinfo=UTC),
        "StackStatus": "UPDATE_COMPLETE",
        "Outputs": [{"OutputKey": "AliasArn", "OutputValue": f"{ARN}:live"}],
    }
    session.stubs["cloudformation"].add_response(
        "describe_stacks", {"Stacks": [stack]}, {"StackName": "EmbeddingKit-dev-Endpoint"}
    )


def _target(resource: str) -> dict:
    return {
        "ServiceNamespace": "lambda",
        "ResourceId": resource,
        "ScalableDimension": "lambda:function:ProvisionedConcurrency",
        "MinCapacity": 1,
        "MaxCapacity": 10,
        "RoleARN": "arn:aws:iam::123456789012:role/scaling",
        "CreationTime": datetime(2026, 11, 1, tzinfo=UTC),
    }


def test_scaling_is_suspended_and_what_it_allocated_is_ended(session, environments):
    """In this order, or the scaling would allocate again what was ended; others' is left alone."""
    _deployed(session)
    scaling = session.stubs["application-autoscaling"]
    scaling.add_response(
        "describe_scalable_targets",
        {
            "ScalableTargets": [
                _target("function:embedder:live"),
                _target("function:embedder-of-others:live"),
            ]
        },
    )
    scaling.add_response(
        "register_scalable_target",
        {},
        {
            "ServiceNamespace": "lambda",
            "ResourceId": "function:embedder:live",
            "ScalableDimension": ANY,
            "SuspendedState": {
                "DynamicScalingInSuspended": True,
                "DynamicScalingOutSuspended": True,
                "ScheduledScalingSuspended": True,
            },
        },
    )
    concurrency = session.stubs["lambda"]
    concurrency.add_response(
        "list_provisioned_concurrency_configs",
        {"ProvisionedConcurrencyConfigs": [{"FunctionArn": f"{ARN}:live"}]},
        {"FunctionName": "embedder"},
    )
    concurrency.add_response(
        "delete_provisioned_concurrency_config",
        {},
        {"FunctionName": "embedder", "Qualifier": "live"},
    )
    ended = list(end_provisioned_concurrency(session, environments["dev"]))
    assert ended == [f"{ARN}:live"]


def test_an_environment_that_is_not_deployed_has_no_leftovers(session, environments):
    """Destroying what is not there is no error."""
    session.stubs["cloudformation"].add_client_error("describe_stacks", "ValidationError")
    assert list(end_provisioned_concurrency(session, environments["dev"])) == []


def test_missing_rights_are_told(session, environments):
    """Silence would look as if nothing were left."""
    session.stubs["cloudformation"].add_client_error("describe_stacks", "AccessDenied")
    with pytest.raises(Exception, match="AccessDenied"):
        list(end_provisioned_concurrency(session, environments["dev"]))


@pytest.fixture
def asked(monkeypatch, environments) -> list[str]:
    """Let the command read a variant, and note whether it asks AWS to end something."""
    names: list[str] = []
    monkeypatch.setattr(leftovers, "load_environment", lambda name, **_: environments[name])
    monkeypatch.setattr(
        leftovers,
        "end_provisioned_concurrency",
        lambda _, environment: names.append(environment.name) or iter([f"{ARN}:live"]),
    )
    return names


def test_a_deploy_with_provisioned_concurrency_leaves_it(asked):
    """What the environment asks for is no leftover."""
    assert main(["provisioned", "--after", "deploy"]) == 0
    assert asked == []


def test_a_deploy_without_it_ends_it(asked, capsys):
    """Turned off means ended, and it is told."""
    assert main(["dev", "--after", "deploy"]) == 0
    assert asked == ["dev"]
    assert f"ended provisioned concurrency of {ARN}:live" in capsys.readouterr().out


def test_before_everything_is_destroyed_it_is_ended_whatever_was_asked_for(asked):
    """The scaling goes with the stack; what it allocated would not."""
    assert main(["provisioned", "--before", "destroy"]) == 0
    assert asked == ["dev"]


def test_what_stays_after_a_destroy_is_told(asked, capsys):
    """Images that are retained go on costing; the command to remove them is shown."""
    assert main(["production", "--after", "destroy"]) == 0
    assert "delete-repository --force --repository-name embedding-kit-production" in (
        capsys.readouterr().out
    )
    assert main(["dev", "--after", "destroy"]) == 0
    assert capsys.readouterr().out == ""


def test_an_unknown_environment_is_an_error(capsys):
    """The same message as synth's."""
    assert main(["nowhere", "--before", "destroy"]) == 1
    assert capsys.readouterr().err.startswith("error: there is no environment 'nowhere'")


def test_missing_credentials_are_told_without_a_traceback(monkeypatch, environments, capsys):
    """Whoever is not signed in sees that, and not where it was noticed."""
    monkeypatch.setattr(leftovers, "load_environment", lambda name, **_: environments[name])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert main(["dev", "--before", "destroy"]) == 1
    assert capsys.readouterr().err == (
        "error: dev could not be looked through: Unable to locate credentials\n"
    )
