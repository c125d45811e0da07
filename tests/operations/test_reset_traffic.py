"""Test clearing weights that a failed release left on the alias."""

from typing import Any

import pytest

from operations import reset_traffic
from operations.reset_traffic import clear_weights, find_stuck_weights, main

WEIGHTS = {"3": 1.0}
CLEARED = {
    "FunctionName": "embedder",
    "Name": "live",
    "RoutingConfig": {"AdditionalVersionWeights": {}},
    "RevisionId": "revision-1",
}


def _alias(session, version: str, others: dict[str, float]) -> None:
    answer: dict[str, Any] = {"FunctionVersion": version, "RevisionId": "revision-1"}
    if others:
        answer["RoutingConfig"] = {"AdditionalVersionWeights": others}
    alias = {"FunctionName": "embedder", "Name": "live"}
    session.stubs["lambda"].add_response("get_alias", answer, alias)


def _weighted(session, version: str, others: dict[str, float], *, stays: bool = False) -> None:
    """Describe an alias with weights, and the template, which has those that stay."""
    _alias(session, version, others)
    properties: dict[str, Any] = {"Name": "live"} | ({"RoutingConfig": {}} if stays else {})
    resources = {
        "Live": {"Type": "AWS::Lambda::Alias", "Properties": properties},
        "Embedder": {"Type": "AWS::Lambda::Function", "Properties": {}},
    }
    session.template({"Resources": resources})


def _released(session, version: str, others: dict[str, float], *running: str) -> None:
    """Describe an endpoint with weights of a release, and the deployments that run."""
    session.deployed()
    _weighted(session, version, others)
    session.group()
    session.stubs["codedeploy"].add_response(
        "list_deployments",
        {"deployments": list(running)},
        {
            "applicationName": "the-Application",
            "deploymentGroupName": "the-DeploymentGroup",
            "includeOnlyStatuses": ["Created", "Queued", "InProgress", "Baking", "Ready"],
        },
    )


@pytest.mark.parametrize(
    ("before", "kept", "weights"),
    [
        (("4", {"3": 1.0}), "3", "version 4: 0%, version 3: 100%"),
        (("3", {"4": 0.1}), "3", "version 3: 90%, version 4: 10%"),
        (("3", {"4": 0.75}), "4", "version 3: 25%, version 4: 75%"),
        (("3", {"4": 0.5}), "3", "version 3: 50%, version 4: 50%"),
    ],
)
def test_all_requests_go_where_most_go(session, environments, before, kept, weights):
    """The new version may be unable to start, so all requests go to the one that gets most."""
    _released(session, *before)
    session.stubs["lambda"].add_response("update_alias", {}, CLEARED | {"FunctionVersion": kept})
    assert clear_weights(session, environments["dev"], version=None) == (
        f"the alias live divides its traffic ({weights}); now version {kept} gets all of it"
    )


def test_the_version_may_be_chosen(session, environments):
    """The user may choose either of the two versions, but no other."""
    _released(session, "4", WEIGHTS)
    session.stubs["lambda"].add_response("update_alias", {}, CLEARED | {"FunctionVersion": "4"})
    assert clear_weights(session, environments["dev"], version="4").endswith(
        "now version 4 gets all of it"
    )
    _released(session, "4", WEIGHTS)
    with pytest.raises(ValueError, match="--version: found: 2; allowed: 4 or 3, to which the ali"):
        clear_weights(session, environments["dev"], version="2")


def test_a_running_deployment_keeps_its_weights(session, environments):
    """CodeDeploy set them and will remove them. CloudFormation also moves the alias."""
    _released(session, "3", {"4": 0.1}, "d-123")
    with pytest.raises(ValueError, match=r"the deployment d-123 is running; wait .* nothing was c"):
        clear_weights(session, environments["dev"], version=None)
    for status in ("UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"):
        session.deployed(status=status)
        _weighted(session, "3", {"4": 0.1})
        with pytest.raises(ValueError, match=rf"EmbeddingKit-dev-Endpoint \({status}\) is running"):
            clear_weights(session, environments["dev"], version=None)


def test_without_weights_of_a_release_nothing_is_changed(session, environments):
    """Not by a second run, not those of an experiment, and not before the first deploy."""
    none = "the alias live has no weights of a release; nothing was changed"
    session.deployed()
    _alias(session, "3", {})
    assert clear_weights(session, environments["dev"], version=None) == none
    session.deployed()
    _weighted(session, "3", {"2": 0.1}, stays=True)
    assert clear_weights(session, environments["dev"], version=None) == none
    session.stubs["cloudformation"].add_client_error("describe_stacks", "ValidationError")
    assert clear_weights(session, environments["dev"], version=None) == (
        "dev is not deployed; nothing was changed"
    )


@pytest.mark.parametrize(("running", "favorite"), [((), "3"), (("d-123",), None)])
def test_weights_that_no_release_explains_are_stuck(session, environments, running, favorite):
    """A running release explains them, however long its shift takes."""
    _released(session, "4", WEIGHTS, *running)
    weights = find_stuck_weights(session, environments["dev"])
    assert (weights and weights.favorite) == favorite


def test_the_command_prints_what_it_did(session, environments, monkeypatch, capsys):
    """The command prints one line on stdout, or an error with exit status 1."""
    monkeypatch.setattr(reset_traffic, "session_for", lambda *_, **__: session)
    session.deployed()
    _alias(session, "3", {})
    assert main(["dev"]) == 0
    assert capsys.readouterr().out.startswith("the alias live has no weights of a release")
    assert main(["nowhere"]) == 1
    assert capsys.readouterr().err.startswith("error: there is no environment 'nowhere'")
    session.stubs["cloudformation"].add_client_error("describe_stacks", "ExpiredToken")
    assert main(["dev"]) == 1
    assert capsys.readouterr().err.startswith("error: the weights of dev: An error occurred (Expir")
