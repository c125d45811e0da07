"""The stacks, the last release, the version, and weights on the alias."""

import json
from datetime import timedelta

import pytest

from embedding_client.doctor.facts import PARTS
from embedding_client.doctor.findings import State
from embedding_client.doctor.release import (
    check_stacks,
    check_version,
    check_weights,
    judge_release,
    judge_stacks,
    judge_version,
    judge_weights,
)

from .conftest import ALIAS, NOW, URL, deployed, identify, resources, stack

WEIGHTS = {"FunctionVersion": "7", "RoutingConfig": {"AdditionalVersionWeights": {"8": 0.25}}}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("CREATE_COMPLETE", State.OK),
        ("UPDATE_COMPLETE", State.OK),
        ("UPDATE_IN_PROGRESS", State.WARNING),
        ("UPDATE_ROLLBACK_COMPLETE", State.WARNING),
        ("UPDATE_ROLLBACK_FAILED", State.ILL),
    ],
)
def test_the_status_of_a_stack(status, state):
    """A stack that is not complete is named."""
    found = judge_stacks({"one": "CREATE_COMPLETE", "two": status})
    assert found.state == state
    assert found.found == ("2 stacks are complete" if state == State.OK else f"two: {status}")


def test_an_environment_that_is_not_deployed_is_ill(aws, facts):
    """With account and region, as they may be the wrong ones."""
    identify(aws)
    aws.refuses("cloudformation", "describe_stacks", "ValidationError")
    found = check_stacks(facts(environment="dev", url=None))
    assert (found.state, found.found) == (
        State.ILL,
        "EmbeddingKit-dev-Endpoint does not exist in 123456789012, eu-central-1",
    )


def test_each_stack_of_the_environment_is_read(aws, facts):
    """As far as it exists."""
    deployed(aws)
    for part in PARTS:
        if part in {"Artifact", "Index", "Front", "Server"}:
            aws.refuses("cloudformation", "describe_stacks", "ValidationError")
        else:
            aws.answers("cloudformation", "describe_stacks", {"Stacks": [stack(part)]})
    found = check_stacks(facts())
    assert found.found == "4 stacks are complete"
    assert "EmbeddingKit-dev-Batch" in found.data["stacks"]


@pytest.mark.parametrize(
    ("outputs", "state"),
    [
        ({"Stacks": "EmbeddingKit-dev-Endpoint,EmbeddingKit-dev-Observability"}, State.WARNING),
        ({"Stacks": ",".join(f"EmbeddingKit-dev-{part}" for part in PARTS)}, State.OK),
        ({}, State.OK),
    ],
    ids=["removed", "all listed", "no list"],
)
def test_a_stack_that_the_last_deploy_did_not_have_is_a_warning(aws, facts, outputs, state):
    """It stays deployed, reachable and billed."""
    deployed(aws)
    for part in PARTS:
        if part in {"Endpoint", "Batch"}:
            aws.answers("cloudformation", "describe_stacks", {"Stacks": [stack(part)]})
        elif part == "Observability":
            aws.answers("cloudformation", "describe_stacks", {"Stacks": [stack(part, **outputs)]})
        else:
            aws.refuses("cloudformation", "describe_stacks", "ValidationError")
    found = check_stacks(facts())
    assert found.state == state
    if state == State.WARNING:
        assert found.found.startswith("the last deploy did not have EmbeddingKit-dev-Batch: ")
        assert found.advice == "scripts/destroy dev --removed"


@pytest.mark.parametrize(
    ("deployment", "state", "words"),
    [
        (None, State.OK, "no release has replaced a version yet"),
        (
            {"status": "Succeeded", "completeTime": NOW - timedelta(hours=1)},
            State.OK,
            "d-1: Succeeded, 1 hour ago",
        ),
        (
            {"status": "InProgress", "createTime": NOW - timedelta(minutes=2)},
            State.WARNING,
            "d-1: InProgress, 2 minutes ago",
        ),
        (
            {"status": "Stopped", "rollbackInfo": {"rollbackMessage": "an alarm"}},
            State.WARNING,
            "d-1: Stopped (an alarm)",
        ),
        (
            {"status": "Failed", "errorInformation": {"message": "no version"}},
            State.WARNING,
            "d-1: Failed (no version)",
        ),
        ({"status": "Failed"}, State.WARNING, "d-1: Failed"),
        (
            {
                "status": "Succeeded",
                "creator": "codeDeployRollback",
                "rollbackInfo": {"rollbackTriggeringDeploymentId": "d-0"},
            },
            State.WARNING,
            "d-1: Succeeded (it rolled d-0 back)",
        ),
    ],
)
def test_the_last_release(deployment, state, words):
    """After a failed one the version before serves, so it is a warning."""
    given = None if deployment is None else {"deploymentId": "d-1", **deployment}
    found = judge_release(given, NOW)
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("configuration", "state", "words"),
    [
        ({"State": "Active"}, State.OK, "version 3 is Active, 1,769 MB"),
        ({"State": "Inactive"}, State.WARNING, "version 3 is Inactive, 1,769 MB"),
        (
            {"State": "Failed", "StateReason": "no image"},
            State.ILL,
            "version 3 is Failed, 1,769 MB (no image)",
        ),
        (
            {"State": "Active", "LastUpdateStatus": "Failed"},
            State.ILL,
            "version 3 is Active, 1,769 MB (no reason given)",
        ),
    ],
)
def test_the_version_that_serves(configuration, state, words):
    """One that is Active has pulled its image."""
    found = judge_version({"Version": "3", "MemorySize": 1769, **configuration})
    assert (found.state, found.found) == (state, words)


def test_the_version_is_that_of_the_alias(aws, facts):
    """Not the newest one."""
    deployed(aws)
    aws.answers(
        "lambda",
        "get_function_configuration",
        {"Version": "3", "MemorySize": 1769},
        {"FunctionName": "embedder", "Qualifier": "live"},
    )
    assert check_version(facts()).state == State.OK


def test_weights_without_a_release_are_ill():
    """With the command that clears them."""
    found = judge_weights(WEIGHTS, by="", name="dev")
    assert (found.state, found.found) == (
        State.ILL,
        "version 7: 75%, version 8: 25%, and no release is running: AWS refuses further releases",
    )
    assert found.advice.startswith("scripts/clear-weights dev")
    found = judge_weights({"FunctionVersion": "7"}, by="", name="dev")
    assert found.found == "none: version 7 gets all requests"


def template(**alias):
    resource = {"Type": "AWS::Lambda::Alias", "Properties": alias}
    return json.dumps({"Resources": {"Live": resource}})


def weighted(aws, status="UPDATE_COMPLETE", **alias):
    """Answer with weights on the alias, and with a template."""
    identify(aws)
    found = stack(status=status, Url=URL, AliasArn=ALIAS)
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [found]})
    aws.answers("lambda", "get_alias", WEIGHTS)
    aws.answers("cloudformation", "get_template", {"TemplateBody": template(**alias)})


def released(aws, status):
    kinds = ("Application", "DeploymentGroup")
    items = resources({f"AWS::CodeDeploy::{kind}": [kind] for kind in kinds})
    aws.answers("cloudformation", "list_stack_resources", items)
    group = {"lastAttemptedDeployment": {"deploymentId": "d-1", "status": status}}
    asked = {"applicationName": "Application", "deploymentGroupName": "DeploymentGroup"}
    aws.answers("codedeploy", "get_deployment_group", {"deploymentGroupInfo": group}, asked)
    info = {"deploymentId": "d-1", "status": status}
    aws.answers("codedeploy", "get_deployment", {"deploymentInfo": info})


def test_an_experiment_explains_weights(aws, facts):
    """It has them in the template."""
    weighted(aws, RoutingConfig={})
    found = check_weights(facts())
    assert (found.state, found.found) == (
        State.OK,
        "version 7: 75%, version 8: 25%, by an experiment by weights",
    )


def test_a_running_update_explains_weights(aws, facts):
    """Of the stack."""
    weighted(aws, "UPDATE_IN_PROGRESS")
    assert check_weights(facts()).found.endswith("by a running update of the stack")


@pytest.mark.parametrize(("status", "state"), [("InProgress", State.OK), ("Failed", State.ILL)])
def test_only_a_running_release_explains_weights(aws, facts, status, state):
    """A failed one has left them."""
    weighted(aws)
    released(aws, status)
    assert check_weights(facts()).state == state


def test_without_a_deployment_group_no_release_explains_weights(aws, facts):
    """As for an alias that somebody changed by hand."""
    weighted(aws)
    aws.answers("cloudformation", "list_stack_resources", resources({}))
    assert check_weights(facts()).state == State.ILL
