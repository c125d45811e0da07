"""Test rolling an environment back."""

import copy
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from botocore.stub import ANY

from embedding_kit import Callers
from operations import rollback
from operations.rollback import main, roll_back

from .conftest import STACK

VERSION = {"Fn::GetAtt": ["Version6", "Version"]}
TEMPLATE: dict[str, Any] = {
    "Parameters": {"BootstrapVersion": {"Type": "String"}},
    "Resources": {
        "Candidate": {"Type": "AWS::Lambda::Alias", "Properties": {"FunctionVersion": "4"}},
        "Live": {
            "Type": "AWS::Lambda::Alias",
            "Properties": {"Name": "live", "FunctionVersion": VERSION},
            "UpdatePolicy": {"CodeDeployLambdaAliasUpdate": {"ApplicationName": "the-Application"}},
        },
        "Group": {
            "Type": "AWS::CodeDeploy::DeploymentGroup",
            "Properties": {
                "DeploymentConfigName": {"Ref": "Steps"},
                "AlarmConfiguration": {"Enabled": True, "Alarms": [{"Name": "Crashes-6"}]},
            },
        },
        "Check": {
            "Type": "Custom::ReleaseCheck",
            "Properties": {"Version": VERSION, "RecordedAs": "Space"},
        },
    },
    "Outputs": {"Space": {"Value": "one"}, "AliasArn": {"Value": "two"}},
}
GROUP = {"applicationName": "the-Application", "deploymentGroupName": "the-DeploymentGroup"}


def _template(session, template=TEMPLATE, *, served: str = "6") -> None:
    session.stubs["lambda"].add_response(
        "get_alias", {"FunctionVersion": served}, {"FunctionName": "embedder", "Name": "live"}
    )
    session.template(template)


def _last_release(session, *, creator: str = "CloudFormation") -> None:
    """Describe a last release that moved the alias from version 5 to 6."""
    session.group()
    deploy = session.stubs["codedeploy"]
    info = {"lastSuccessfulDeployment": {"deploymentId": "d-1"}}
    deploy.add_response("get_deployment_group", {"deploymentGroupInfo": info}, GROUP)
    deployment = {"deploymentInfo": {"creator": creator}}
    deploy.add_response("get_deployment", deployment, {"deploymentId": "d-1"})
    if creator == "codeDeployRollback":
        return
    deploy.add_response("list_deployment_targets", {"targetIds": ["t-1"]}, {"deploymentId": "d-1"})
    moved = {"functionAlias": "live", "currentVersion": "5", "targetVersion": "6"}
    deploy.add_response(
        "batch_get_deployment_targets",
        {"deploymentTargets": [{"lambdaTarget": {"lambdaFunctionInfo": moved}}]},
        {"deploymentId": "d-1", "targetIds": ["t-1"]},
    )


def _released(session) -> None:
    """Describe an endpoint after its last release, from version 5 to 6."""
    session.deployed()
    _template(session)
    _last_release(session)


def _running(session, *deployments: str) -> Any:
    """Describe an update that runs, with these deployments; return the stub of CodeDeploy."""
    session.deployed(status="UPDATE_IN_PROGRESS")
    session.group()
    stub = session.stubs["codedeploy"]
    stub.add_response("list_deployments", {"deployments": list(deployments)})
    return stub


def _published(session, version: str, *states: str, answers: Sequence[Any] = (200,) * 3) -> None:
    """Describe a version in these states, the last of which is Active, and its answers."""
    qualified = {"FunctionName": "embedder", "Qualifier": version}
    stub = session.stubs["lambda"]
    for number, state in enumerate((*states, "Active")):
        stub.add_response("get_function_configuration", {"State": state}, qualified)
        if number == 0 and states:
            stub.add_client_error("invoke", "CodeArtifactUserPendingException")
    for answer in answers:
        if isinstance(answer, str):
            stub.add_client_error("invoke", answer)
            continue
        crash = {"FunctionError": "Unhandled"} if answer == 502 else {}
        body = json.dumps({"statusCode": answer}).encode()
        payload = StreamingBody(io.BytesIO(body), len(body))
        stub.add_response("invoke", {"Payload": payload, **crash}, qualified | {"Payload": ANY})


def _updated(session, version: str) -> None:
    """Check the updated stack: only the alias, the group and the recorded space differ."""
    template = copy.deepcopy(TEMPLATE)
    template["Resources"]["Live"]["Properties"]["FunctionVersion"] = version
    group = template["Resources"]["Group"]["Properties"]
    group["DeploymentConfigName"] = "CodeDeployDefault.LambdaAllAtOnce"
    group["AlarmConfiguration"]["Enabled"] = False
    del template["Outputs"]["Space"]
    session.stubs["cloudformation"].add_response(
        "update_stack",
        {"StackId": "id"},
        {
            "StackName": STACK,
            "TemplateBody": json.dumps(template, separators=(",", ":")),
            "Parameters": [{"ParameterKey": "BootstrapVersion", "UsePreviousValue": True}],
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
        },
    )
    session.deployed()


def test_after_a_release_cloudformation_moves_the_alias_back(session, environments):
    """The update shifts all traffic at once, ignores alarms, and records the alias's version."""
    _released(session)
    _published(session, "5")
    _updated(session, "5")
    done = roll_back(session, environments["dev"])
    assert done.startswith("the alias live serves version 5. Next: fix the cause")


def test_an_inactive_version_serves_once_it_is_active(session, environments, capsys, monkeypatch):
    """Lambda rejects the first invocation of a version that had none for weeks, and prepares it."""
    monkeypatch.setattr("botocore.waiter.time.sleep", lambda _: None)
    _released(session)
    _published(session, "5", "Inactive", "Inactive", "Pending")
    _updated(session, "5")
    assert "serves version 5" in roll_back(session, environments["dev"])
    assert "version 5 is Inactive; waiting until it is Active" in capsys.readouterr().out


def test_a_version_that_does_not_answer_is_refused(session, environments):
    """Requests would move from one broken version to another; nothing is changed."""
    _released(session)
    _published(session, "5", answers=(200, 502, 200))
    with pytest.raises(ValueError, match="version 5 does not answer GET /health; found: 502; all"):
        roll_back(session, environments["dev"])


ACME = "arn:aws:iam::111122223333:role/acme"


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        (None, "would let each of them search something else"),
        ({"": [ACME]}, f"would let {ACME} search something else"),
        ({"": [ACME.replace("role/", "role/teams/")]}, f"would let {ACME} search something else"),
        ({"other/": [ACME]}, f"would let {ACME} search something else"),
        ("AccessDenied", "found: AccessDenied; allowed: kms:Decrypt"),
        ({"acme/": [ACME]}, None),
        ({"acme/": ["arn:aws:iam::111122223333:role/other"]}, None),
    ],
)
def test_a_version_with_other_limits_of_callers_is_refused(session, environments, limits, refused):
    """It would let a role search other documents; a role that it does not name finds nothing."""
    limited = environments["dev"].model_copy(update={"callers": Callers(prefixes={ACME: "acme/"})})
    _released(session)
    environment: dict[str, Any] = {"Variables": {}}
    if isinstance(limits, dict):
        environment = {"Variables": {"EMBEDDING_SEARCH_PREFIXES": json.dumps(limits)}}
    elif limits:
        environment = {"Error": {"ErrorCode": limits, "Message": limits}}
    session.stubs["lambda"].add_response(
        "get_function_configuration",
        {"Environment": environment},
        {"FunctionName": "embedder", "Qualifier": "5"},
    )
    if refused:
        with pytest.raises(ValueError, match=refused):
            roll_back(session, limited)
        return
    session.stubs["lambda"].add_client_error("invoke", "AccessDeniedException")
    _updated(session, "5")
    assert "serves version 5" in roll_back(session, limited)


@pytest.mark.parametrize("error", ["TooManyRequestsException", "AccessDeniedException"])
def test_a_version_that_cannot_be_warmed_can_serve(session, environments, capsys, error):
    """In an outage, requests may be throttled, and the permission to invoke may be missing."""
    _released(session)
    _published(session, "5", answers=(error,) * 3)
    _updated(session, "5")
    assert "serves version 5" in roll_back(session, environments["dev"])
    assert f"note: version 5 was not warmed: An error occurred ({error})" in capsys.readouterr().err


def test_an_inactive_version_without_the_permission_is_not_waited_for(session, environments):
    """No request makes it Active before the alias moves to it."""
    _released(session)
    qualified = {"FunctionName": "embedder", "Qualifier": "5"}
    stub = session.stubs["lambda"]
    stub.add_response("get_function_configuration", {"State": "Inactive"}, qualified)
    stub.add_client_error("invoke", "AccessDeniedException")
    _updated(session, "5")
    assert "serves version 5" in roll_back(session, environments["dev"])


@pytest.mark.parametrize("by", ["CloudFormation", "CodeDeploy"])
def test_a_release_that_was_rolled_back_by_itself_is_left_alone(session, environments, by):
    """The serving version is the good one; the one before it may be much older."""
    session.deployed(
        status="UPDATE_ROLLBACK_COMPLETE" if by == "CloudFormation" else "UPDATE_COMPLETE"
    )
    _template(session)
    if by == "CodeDeploy":
        _last_release(session, creator="codeDeployRollback")
    assert "is rolled back already; nothing was changed" in roll_back(session, environments["dev"])


def test_a_version_may_be_chosen(session, environments):
    """A version can be chosen, even after a rollback to a version that was no better."""
    session.deployed(status="UPDATE_ROLLBACK_COMPLETE")
    _template(session)
    _published(session, "3")
    _updated(session, "3")
    assert "serves version 3" in roll_back(session, environments["dev"], version="3")


def test_a_version_that_the_stack_has_already_is_no_change(session, environments):
    """CloudFormation would refuse the update of a template that is the same."""
    session.deployed()
    template = copy.deepcopy(TEMPLATE)
    template["Resources"]["Live"]["Properties"]["FunctionVersion"] = "3"
    _template(session, template, served="3")
    assert "nothing was changed" in roll_back(session, environments["dev"], version="3")


def test_a_running_release_is_stopped(session, environments):
    """CodeDeploy moves the traffic back, and CloudFormation follows; before that, it cancels."""
    _running(session)
    session.stubs["cloudformation"].add_response("cancel_update_stack", {}, {"StackName": STACK})
    assert roll_back(session, environments["dev"]).startswith(f"canceled the update of {STACK}")
    _running(session, "d-2").add_client_error("stop_deployment", "AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        roll_back(session, environments["dev"])
    _running(session, "d-2").add_response(
        "stop_deployment",
        {"status": "Pending"},
        {"deploymentId": "d-2", "autoRollbackEnabled": True},
    )
    assert roll_back(session, environments["dev"]).startswith(
        "stopped d-2: CodeDeploy gives all requests back to the version before"
    )


@pytest.mark.parametrize("deployments", [[], ["d-2"]])
def test_an_update_that_ends_meanwhile_is_undone_after_its_end(
    session, environments, capsys, monkeypatch, deployments
):
    """What cannot be stopped any more is rolled back as after a release."""
    monkeypatch.setattr("operations.rollback.time.sleep", lambda _: None)
    deploy = _running(session, *deployments)
    if deployments:
        deploy.add_client_error("stop_deployment", "DeploymentAlreadyCompletedException")
    else:
        session.stubs["cloudformation"].add_client_error("cancel_update_stack", "ValidationError")
    session.deployed(status="UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
    _released(session)
    _published(session, "5")
    _updated(session, "5")
    assert "serves version 5" in roll_back(session, environments["dev"])
    assert "the stack's update is ending; waiting for it ..." in capsys.readouterr().out


@pytest.mark.parametrize(
    "status", ["UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS"]
)
def test_a_rollback_that_runs_is_left_alone(session, environments, status):
    """A second run right after the first changes nothing."""
    session.deployed(status=status)
    assert roll_back(session, environments["dev"]) == (
        f"{STACK} is rolling back ({status}); nothing was changed"
    )


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback --stack-name EmbeddingKit-dev-End"),
        ("CREATE_IN_PROGRESS", "or to wait until it is"),
    ],
)
def test_a_stack_that_cannot_be_updated_is_an_error(session, environments, status, message):
    """The message names the step to take first."""
    session.deployed(status=status)
    with pytest.raises(ValueError, match=message):
        roll_back(session, environments["dev"])


def _weighted(session) -> None:
    weighted = copy.deepcopy(TEMPLATE)
    del weighted["Resources"]["Live"]["UpdatePolicy"]
    _template(session, weighted)


def _changed(session) -> None:
    _template(session, served="9")
    _last_release(session)


def _first(session) -> None:
    _template(session)
    session.group()
    session.stubs["codedeploy"].add_response(
        "get_deployment_group", {"deploymentGroupInfo": {}}, GROUP
    )


def _gone(session) -> None:
    _template(session)
    _last_release(session)
    session.stubs["lambda"].add_client_error(
        "get_function_configuration", "ResourceNotFoundException"
    )


@pytest.mark.parametrize(
    ("describe", "message"),
    [
        # Only the user knows which of the two versions is the good one.
        (_weighted, "found: an experiment by weights"),
        # The last release then does not show which version served before.
        (_changed, "serves version 9, and the last release moved it to 6"),
        # The first deploy does not move an alias.
        (_first, "no release has replaced a version yet"),
        # With SnapStart the old version is deleted.
        (_gone, r"there is no version 5 \(with SnapStart"),
    ],
)
def test_without_a_version_to_go_back_to(session, environments, describe, message):
    """Nothing is changed, and the error says why there is none."""
    session.deployed()
    describe(session)
    with pytest.raises(ValueError, match=message):
        roll_back(session, environments["dev"])


def test_what_is_not_deployed_cannot_be_rolled_back(session, environments):
    """The message names the environment."""
    session.stubs["cloudformation"].add_client_error("describe_stacks", "ValidationError")
    with pytest.raises(ValueError, match="dev is not deployed; nothing was changed"):
        roll_back(session, environments["dev"])


def test_the_command_prints_what_it_did(monkeypatch, capsys):
    """The command prints the result, or one line on stderr with exit status 1."""
    versions = []

    def answer(_, environment, *, version):
        versions.append((environment.name, version))
        if version == "3":
            raise ValueError("there is no version 3")
        return "the alias live serves version 5"

    monkeypatch.setattr(rollback, "roll_back", answer)
    monkeypatch.setattr(rollback, "session_for", lambda *_, **__: None)
    assert main(["dev"]) == 0
    assert main(["dev", "--version", "3"]) == 1
    assert main(["nowhere"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "the alias live serves version 5\n"
    assert printed.err.startswith("error: there is no version 3\nerror: there is no environment")
    assert versions == [("dev", None), ("dev", "3")]
