"""The stacks, the last release, the version, and weights on the alias."""

import json
from datetime import timedelta

import httpx
import pytest

from embedding_client._doctor.release import (
    Ages,
    ages_of,
    check_image,
    check_stacks,
    check_version,
    check_weights,
    image_result,
    release_result,
    stacks_result,
    version_result,
    weights_result,
)
from embedding_client._doctor.results import SkippedError, State

from .conftest import ALIAS, NOW, URL, deployed, identify, resources, stack

WEIGHTS = {"FunctionVersion": "7", "RoutingConfig": {"AdditionalVersionWeights": {"8": 0.25}}}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("CREATE_COMPLETE", State.OK),
        ("UPDATE_COMPLETE", State.OK),
        ("UPDATE_IN_PROGRESS", State.WARNING),
        ("UPDATE_ROLLBACK_COMPLETE", State.WARNING),
        ("UPDATE_ROLLBACK_FAILED", State.FAILED),
    ],
)
def test_the_status_of_a_stack(status, state):
    """A stack that is not complete is named."""
    found = stacks_result({"one": "CREATE_COMPLETE", "two": status})
    assert found.state == state
    assert found.found == ("2 stacks are complete" if state == State.OK else f"two: {status}")


def test_an_environment_that_is_not_deployed_is_ill(aws, snapshot):
    """With account and region, as they may be the wrong ones."""
    identify(aws)
    # The part of another environment's name is not of this one.
    other = stack(environment="dev-x")
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [other]})
    found = check_stacks(snapshot(environment="dev", url=None))
    assert (found.state, found.found) == (
        State.FAILED,
        "EmbeddingKit-dev-Endpoint does not exist in 123456789012, eu-central-1",
    )


@pytest.mark.parametrize(
    ("listed", "state", "words"),
    [
        (
            "Endpoint,Observability",
            State.WARNING,
            "the last deploy did not have EmbeddingKit-dev-B",
        ),
        ("Endpoint,Observability,Batch", State.OK, "3 stacks are complete"),
        (None, State.OK, "3 stacks are complete"),
    ],
)
def test_a_stack_that_the_last_deploy_did_not_have_is_a_warning(
    aws, snapshot, listed, state, words
):
    """It stays deployed, reachable and billed."""
    names = [f"EmbeddingKit-dev-{part}" for part in (listed or "").split(",")]
    outputs = {"Stacks": ",".join(names)} if listed else {}
    others = stack("Batch"), stack("Observability", **outputs), stack(environment="dev-x")
    deployed(aws, *others)
    found = check_stacks(snapshot())
    assert (found.state, found.found.startswith(words)) == (state, True)


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
    found = release_result(given, NOW)
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("configuration", "state", "words"),
    [
        ({"State": "Active"}, State.OK, "version 3 is Active, 1,769 MB"),
        ({"State": "Inactive"}, State.WARNING, "version 3 is Inactive, 1,769 MB"),
        (
            {"State": "Failed", "StateReason": "no image"},
            State.FAILED,
            "version 3 is Failed, 1,769 MB (no image)",
        ),
        (
            {"State": "Active", "LastUpdateStatus": "Failed"},
            State.FAILED,
            "version 3 is Active, 1,769 MB (no reason given)",
        ),
    ],
)
def test_the_version_that_serves(configuration, state, words):
    """One that is Active has pulled its image."""
    found = version_result({"Version": "3", "MemorySize": 1769, **configuration})
    assert (found.state, found.found) == (state, words)


def test_the_version_is_that_of_the_alias(aws, snapshot):
    """Not the newest one."""
    deployed(aws)
    aws.answers(
        "lambda",
        "get_function_configuration",
        {"Version": "3", "MemorySize": 1769},
        {"FunctionName": "embedder", "Qualifier": "live"},
    )
    assert check_version(snapshot()).state == State.OK


def test_weights_without_a_release_are_ill():
    """With the command that clears them."""
    found = weights_result(WEIGHTS, by="", name="dev")
    assert (found.state, found.found) == (
        State.FAILED,
        "version 7: 75%, version 8: 25%, and no release is running: AWS refuses further releases",
    )
    assert found.advice.startswith("scripts/reset-traffic dev")
    found = weights_result({"FunctionVersion": "7"}, by="", name="dev")
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


def test_an_experiment_explains_weights(aws, snapshot):
    """It has them in the template."""
    weighted(aws, RoutingConfig={})
    found = check_weights(snapshot())
    assert (found.state, found.found) == (
        State.OK,
        "version 7: 75%, version 8: 25%, by an experiment by weights",
    )


def test_a_running_update_explains_weights(aws, snapshot):
    """Of the stack."""
    weighted(aws, "UPDATE_IN_PROGRESS")
    assert check_weights(snapshot()).found.endswith("by a running update of the stack")


@pytest.mark.parametrize(("status", "state"), [("InProgress", State.OK), ("Failed", State.FAILED)])
def test_only_a_running_release_explains_weights(aws, snapshot, status, state):
    """A failed one has left them."""
    weighted(aws)
    released(aws, status)
    assert check_weights(snapshot()).state == state


def test_without_a_deployment_group_no_release_explains_weights(aws, snapshot):
    """As for an alias that somebody changed by hand."""
    weighted(aws)
    aws.answers("cloudformation", "list_stack_resources", resources({}))
    assert check_weights(snapshot()).state == State.FAILED


DIGEST = "sha256:" + "a" * 64


URI = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/embedding-kit-dev"


def days_ago(days):
    return NOW - timedelta(days=days)


@pytest.mark.parametrize(
    ("ages", "state", "words"),
    [
        (Ages(days_ago(90), days_ago(1)), State.OK, "made 90 days ago"),
        (Ages(days_ago(91), days_ago(1)), State.WARNING, "made 91 days ago, which is more than 90"),
        (Ages(None, days_ago(4)), State.OK, "unknown; the image was pushed 4 days ago"),
        # A build that hides its time.
        (Ages(days_ago(20_000), days_ago(4)), State.OK, "unknown; the image was pushed 4 days ago"),
    ],
)
def test_an_old_base_is_a_warning(ages, state, words):
    """It has no patches since then."""
    found = image_result(ages, now=NOW, days=90)
    assert (found.state, found.found) == (state, words)


def test_an_image_without_dates_is_skipped():
    """Nothing is guessed."""
    with pytest.raises(SkippedError, match="neither the image nor the repository has a date"):
        image_result(Ages(None, None), now=NOW, days=90)


def test_the_first_layer_is_the_bases():
    """Docker adds a line of history for each instruction, the oldest first."""
    config = {
        "history": [
            {"created": "2026-08-01T10:00:00.123456789Z"},
            {"created": "2026-11-21T10:00:00Z"},
        ]
    }
    assert (NOW - ages_of(config, None).base).days == 113
    assert ages_of({"history": [{"created_by": "COPY"}]}, None).base is None


def looked_up(aws, code, asked, images=()):
    deployed(aws)
    aws.answers("lambda", "get_function", {"Configuration": {"PackageType": "Image"}, "Code": code})
    where = {
        "registryId": "123456789012",
        "repositoryName": "embedding-kit-dev",
        "imageIds": [asked],
    }
    details = {"imageDetails": [{"imagePushedAt": days_ago(2)}]}
    aws.answers("ecr", "describe_images", details, where)
    aws.answers("ecr", "batch_get_image", {"images": list(images)}, where)


def test_the_configuration_is_read_from_the_repository(aws, snapshot):
    """By the digest that Lambda resolved, with the URL that ECR signs."""
    manifest = json.dumps({"config": {"digest": DIGEST}})
    code = {"ImageUri": f"{URI}:tag", "ResolvedImageUri": f"{URI}@{DIGEST}"}
    looked_up(aws, code, {"imageDigest": DIGEST}, [{"imageManifest": manifest}])
    aws.answers("ecr", "get_download_url_for_layer", {"downloadUrl": "https://s3/config"})
    config = {"history": [{"created": days_ago(100).isoformat()}]}
    found = check_image(snapshot(lambda _: httpx.Response(200, json=config)))
    assert (found.state, found.data["days"]) == (State.WARNING, 100)


def test_without_a_configuration_the_push_counts(aws, snapshot):
    """As of an image that is an empty manifest."""
    looked_up(aws, {"ImageUri": f"{URI}:tag"}, {"imageTag": "tag"}, [{"imageManifest": "{}"}])
    assert check_image(snapshot()).found == "unknown; the image was pushed 2 days ago"
    looked_up(aws, {"ImageUri": f"{URI}:tag"}, {"imageTag": "tag"})
    assert check_image(snapshot()).data["days"] == 2


def test_a_zip_has_no_base_image(aws, snapshot):
    """AWS patches its runtime."""
    deployed(aws)
    aws.answers("lambda", "get_function", {"Configuration": {"PackageType": "Zip"}, "Code": {}})
    with pytest.raises(SkippedError, match="AWS patches the runtime of a zip"):
        check_image(snapshot())
