"""Test ending and resuming provisioned concurrency around deploy and destroy."""

from datetime import UTC, datetime
from functools import partial

import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY

from operations import cleanup, command, destroy
from operations.cleanup import (
    after_deploy,
    after_destroy,
    after_failed_deploy,
    before_deploy,
    before_destroy,
    end_provisioned_concurrency,
    resume_scaling,
)
from operations.deployed import DeployedStack

ALIAS = {"Type": "AWS::Lambda::Alias", "Properties": {"Name": "live", "FunctionVersion": "5"}}
LIVE = "function:embedder:live"
ARN = "arn:aws:lambda:us-east-1:123456789012:function:embedder"


@pytest.fixture(autouse=True)
def _without_leftovers(monkeypatch):
    """Leave logs and buckets to the tests in tests/tools/rehearsal/test_leftovers.py."""
    for name in ("delete_left_logs", "logs_of_failure"):
        monkeypatch.setattr(cleanup, name, lambda *_: [])
    monkeypatch.setattr(cleanup, "document_buckets", lambda *_: ["kept-documents"])


def _target(resource: str, *, suspended: bool = False) -> dict:
    return {
        "ServiceNamespace": "lambda",
        "ResourceId": resource,
        "ScalableDimension": "lambda:function:ProvisionedConcurrency",
        "MinCapacity": 2,
        "MaxCapacity": 10,
        "RoleARN": "arn:aws:iam::123456789012:role/scaling",
        "CreationTime": datetime(2026, 11, 1, tzinfo=UTC),
        "SuspendedState": {"ScheduledScalingSuspended": suspended},
    }


def _targets(session, *, suspended: bool) -> None:
    session.stubs["application-autoscaling"].add_response(
        "describe_scalable_targets",
        {
            "ScalableTargets": [
                _target(LIVE, suspended=suspended),
                _target("function:embedder-of-others:live", suspended=suspended),
            ]
        },
    )


def _registered(session, *, suspended: bool) -> None:
    session.stubs["application-autoscaling"].add_response(
        "register_scalable_target",
        {},
        {
            "ServiceNamespace": "lambda",
            "ResourceId": LIVE,
            "ScalableDimension": ANY,
            "SuspendedState": {
                "DynamicScalingInSuspended": suspended,
                "DynamicScalingOutSuspended": suspended,
                "ScheduledScalingSuspended": suspended,
            },
        },
    )


def _configured(session, *arns: str) -> None:
    session.stubs["lambda"].add_response(
        "list_provisioned_concurrency_configs",
        {"ProvisionedConcurrencyConfigs": [{"FunctionArn": arn} for arn in arns]},
        {"FunctionName": "embedder"},
    )


def _ended(session, *, suspended: bool = False) -> None:
    """Expect that everything is ended; the scaling may be suspended already."""
    session.deployed()
    _targets(session, suspended=suspended)
    _registered(session, suspended=True)
    _configured(session, f"{ARN}:live")
    alias = {"FunctionName": "embedder", "Qualifier": "live"}
    session.stubs["lambda"].add_response("delete_provisioned_concurrency_config", {}, alias)


class _Stacks:
    """Those of an environment that has what its file has; the rehearsal's tests have the others."""

    def __init__(self, *_: object) -> None:
        self.place = "123456789012, us-east-1"
        self.all = [
            DeployedStack(
                "EmbeddingKit-dev-Endpoint",
                status="UPDATE_COMPLETE",
                is_protected=False,
                is_removed=False,
            )
        ]
        self.removed: list[DeployedStack] = []


@pytest.fixture
def account(session, monkeypatch):
    """Return the session, of an account with one stack."""
    monkeypatch.setattr(cleanup, "DeployedStacks", _Stacks)
    return session


@pytest.fixture
def step(account, environments):
    """Return a function that runs a step as the scripts do, and returns its status."""

    def step(act, name="dev", **options):
        action = partial(act, account, environments[name], **options)
        return command.report_errors(action, failure="")

    return step


FORCED = {"force": True, "only_removed": False}
ASKING = {"force": False, "only_removed": False}


@pytest.mark.parametrize("answer", ["n", "", "no", "dev", EOFError, KeyboardInterrupt])
def test_only_a_yes_destroys(step, monkeypatch, capsys, answer):
    """Any other answer, Ctrl-C or a missing terminal changes nothing: AWS gets no call."""

    def reply() -> str:
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", reply)
    assert step(before_destroy, **ASKING) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("Destroy EmbeddingKit-dev-Endpoint in 123456789012, us-east-1? [y/N] ")
    assert errors.endswith("nothing was changed\n")


@pytest.mark.parametrize("answer", ["y", " Yes "])
def test_a_yes_ends_what_would_stay_billed(account, step, monkeypatch, capsys, answer):
    """A yes, asked for with the environment's name, ends everything that would stay billed."""
    monkeypatch.setattr("builtins.input", lambda: answer)
    _ended(account)
    assert step(before_destroy, **ASKING) == 0
    assert f"ended provisioned concurrency of {ARN}:live" in capsys.readouterr().out


def test_a_destroy_that_was_interrupted_can_be_run_again(account, step):
    """The second run ends the provisioned concurrency that the first one left."""
    account.deployed()
    _targets(account, suspended=False)
    _registered(account, suspended=True)
    account.stubs["lambda"].add_client_error("list_provisioned_concurrency_configs", "ExpiredToken")
    assert step(before_destroy, **FORCED) == 1
    _ended(account, suspended=True)
    assert step(before_destroy, **FORCED) == 0


def _unweighted(session) -> None:
    session.stubs["lambda"].add_response("get_alias", {"FunctionVersion": "3"})


def test_a_deploy_resumes_what_an_unfinished_destroy_has_suspended(account, step, capsys):
    """The minimum is restored before the scaling, so the next run can repeat an interrupted one."""
    for _ in range(2):
        account.deployed()
    _unweighted(account)
    _targets(account, suspended=True)
    account.stubs["lambda"].add_client_error(
        "get_provisioned_concurrency_config", "ProvisionedConcurrencyConfigNotFoundException"
    )
    account.stubs["lambda"].add_response(
        "put_provisioned_concurrency_config",
        {},
        {"FunctionName": "embedder", "Qualifier": "live", "ProvisionedConcurrentExecutions": 2},
    )
    _registered(account, suspended=False)
    assert step(before_deploy, "provisioned") == 0
    assert capsys.readouterr().out == (
        f"resumed the scaling of {LIVE}, which an unfinished destroy had suspended\n"
    )


def test_what_is_still_allocated_is_left_as_it_is(session, environments):
    """A destroy that was interrupted after its first step has only suspended the scaling."""
    session.deployed()
    _targets(session, suspended=True)
    session.stubs["lambda"].add_response("get_provisioned_concurrency_config", {})
    _registered(session, suspended=False)
    assert list(resume_scaling(session, environments["provisioned"])) == [LIVE]
    session.deployed()
    _targets(session, suspended=False)
    assert list(resume_scaling(session, environments["provisioned"])) == []


def test_a_missing_right_does_not_look_like_a_missing_floor(session, environments):
    """Only AWS's "not found" answer counts as the absence of provisioned concurrency."""
    session.deployed()
    _targets(session, suspended=True)
    session.stubs["lambda"].add_client_error("get_provisioned_concurrency_config", "AccessDenied")
    with pytest.raises(Exception, match="AccessDenied"):
        list(resume_scaling(session, environments["provisioned"]))


def test_a_deploy_without_provisioned_concurrency_resumes_nothing(account, step):
    """Provisioned concurrency that the file turns off is ended after the deploy instead."""
    account.deployed()
    _unweighted(account)
    assert step(before_deploy) == 0


def _stacks(session, **statuses: str) -> None:
    """Describe the stacks of dev, by their part and status."""
    stacks = [
        session.stack(f"EmbeddingKit-dev-{stack}", StackStatus=status)
        for stack, status in statuses.items()
    ]
    session.stubs["cloudformation"].add_response("describe_stacks", {"Stacks": stacks}, {})


def test_after_an_interrupted_deploy_it_is_said_what_aws_continues(account, step, capsys):
    """And which commands follow: AWS refuses another deploy until it has ended."""
    _stacks(
        account, Repository="UPDATE_COMPLETE", Endpoint="UPDATE_IN_PROGRESS", Server="DELETE_FAILED"
    )
    assert step(after_failed_deploy) == 1
    assert capsys.readouterr().err == (
        "note: AWS is changing EmbeddingKit-dev-Endpoint (UPDATE_IN_PROGRESS), and takes no other "
        "change of it; allowed: to wait until it ends, or scripts/rollback dev, which stops it and "
        "goes back\nerror: the deploy has not ended; when AWS has: scripts/deploy dev\n"
    )


def test_the_last_line_of_a_failed_deploy_is_said_by_the_script(account, step, capsys):
    """The CDK's own last line may be an error without a text."""
    _stacks(account, Endpoint="UPDATE_ROLLBACK_COMPLETE")
    account.deployed()
    _unweighted(account)
    assert step(after_failed_deploy) == 1
    assert capsys.readouterr().err == (
        "error: dev was not deployed, for the reason above; after a fix: scripts/deploy dev\n"
    )


@pytest.mark.parametrize("act", [before_deploy, after_failed_deploy])
def test_stuck_weights_stop_a_deploy_and_explain_a_failed_one(account, step, capsys, act):
    """The error names the command to run."""
    if act is after_failed_deploy:
        _stacks(account, Endpoint="UPDATE_ROLLBACK_COMPLETE")
    account.deployed()
    account.stubs["lambda"].add_response(
        "get_alias",
        {
            "FunctionVersion": "4",
            "RevisionId": "r",
            "RoutingConfig": {"AdditionalVersionWeights": {"3": 1.0}},
        },
    )
    account.template({"Resources": {}})
    account.stubs["cloudformation"].add_response(
        "list_stack_resources", {"StackResourceSummaries": []}
    )
    assert step(act, "provisioned") == 1
    assert capsys.readouterr().err == (
        "error: the alias live divides its traffic (version 4: 0%, version 3: 100%) and no release "
        "is running, so AWS refuses further releases; "
        "scripts/reset-traffic dev gives all of it to version 3\n"
    )


def test_a_deploy_without_its_alias_says_how_to_make_it_again(account, step, capsys):
    """AWS's answer alone would only name an alias that does not exist."""
    account.deployed()
    account.stubs["lambda"].add_client_error("get_alias", "ResourceNotFoundException")
    account.template({"Resources": {"Live": ALIAS}})
    assert step(before_deploy) == 1
    assert capsys.readouterr().err == (
        "error: the alias live, which EmbeddingKit-dev-Endpoint made, was deleted by other means; "
        "nothing was changed. To make it again: aws lambda create-alias --function-name embedder "
        "--name live --function-version 5, and after it scripts/deploy dev\n"
    )


@pytest.mark.parametrize("act", [end_provisioned_concurrency, resume_scaling])
def test_an_environment_that_is_not_deployed_has_nothing_to_change(session, environments, act):
    """Destroying one that does not exist succeeds, as does its first deploy."""
    session.stubs["cloudformation"].add_client_error("describe_stacks", "ValidationError")
    assert list(act(session, environments["provisioned"])) == []


@pytest.fixture
def asked(account, monkeypatch) -> list[str]:
    """Return the names of the environments for which AWS is asked to end something."""
    names: list[str] = []

    def end(_, environment):
        names.append(environment.name)
        return iter([f"{ARN}:live"])

    monkeypatch.setattr(cleanup, "end_provisioned_concurrency", end)
    return names


def test_a_deploy_ends_provisioned_concurrency_that_the_file_turns_off(asked, step, capsys):
    """What the environment asks for is kept."""
    assert step(after_deploy, "provisioned") == 0
    assert asked == []
    assert step(after_deploy) == 0
    assert asked == ["dev"]
    assert f"ended provisioned concurrency of {ARN}:live" in capsys.readouterr().out


@pytest.fixture
def told(account, asked, capsys, environments):
    """Return a function that gives the text printed after a destroy."""

    def told(name: str, **changes: str) -> str:
        after_destroy(account, environments[name].model_copy(update=changes))
        printed: str = capsys.readouterr().out
        return printed

    return told


@pytest.mark.parametrize(
    ("name", "removal", "said", "unsaid"),
    [
        (
            *("production", "retain"),
            "delete-repository --force --repository-name embedding-kit-production",
            "the zips",
        ),
        # In a bucket of the kit's, which has a name by CloudFormation.
        (*("all-together", "retain"), "aws s3 rb --force s3://kept-documents\n", "the zips"),
        ("ingest", "retain", "delete-repository", "documents stay"),
        # It has no repository, and the bucket belongs to bootstrap.
        ("zip", "destroy", "cdk gc --unstable=gc --type s3", "repository"),
        ("dev", "destroy", "", "stay"),
    ],
)
def test_what_stays_after_a_destroy_is_told(told, name, removal, said, unsaid):
    """Retained resources cost money; the command to delete them is shown."""
    printed = told(name, removal_policy=removal)
    assert said in printed
    assert unsaid not in printed


def test_documents_that_cannot_be_looked_up_fail_no_destroy(told, monkeypatch):
    """Without the permission, a note has the error and a command that finds them."""

    def deny(*_):
        raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadBucket")

    monkeypatch.setattr(cleanup, "document_buckets", deny)
    printed = told("all-together", removal_policy="retain")
    assert "note: documents may stay: An error occurred (403)" in printed
    assert "aws s3 ls | grep embeddingkit-" in printed


def test_the_bucket_of_artifacts_stays_after_a_destroy(told):
    """A zip has no repository; its artifacts are shown with the commands for both."""
    shown = told("zip-s3")
    assert "aws s3 rb --force s3://kit-dev-ACCOUNT-REGION" in shown
    assert "again with them, with account and region in the environment's file:" in shown
    assert "scripts/deploy dev --import-existing-resources" in shown
    assert "ecr" not in shown
    shown = told("zip-s3", account="1" * 12, region="eu-west-1")
    assert "aws s3 rb --force s3://kit-dev-111111111111-eu-west-1" in shown
    assert "again with them:" in shown


def test_missing_credentials_are_told_without_a_traceback(monkeypatch, environments, capsys):
    """Missing credentials give one line of error without a traceback."""
    monkeypatch.setattr(command, "load_environment", lambda name, **_: environments[name])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert destroy.main(["dev", "--force"]) == 1
    assert capsys.readouterr().err == (
        "error: dev could not be looked through: Unable to locate credentials; log in (`aws sso "
        "login`), choose a profile (--profile or AWS_PROFILE), or set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY\n"
    )
