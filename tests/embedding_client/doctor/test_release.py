"""The stacks, the last release, the version, and weights on the alias."""

import json
from datetime import timedelta

import httpx2
import pytest

from embedding_client.doctor import SkippedError
from embedding_client.doctor.release import (
    check_image,
    check_release,
    check_stacks,
    check_version,
    check_weights,
)

from .conftest import ALIAS, FAILED, NOW, OK, URL, WARNING, deployed, identify, resources, stack

WEIGHTS = {"FunctionVersion": "7", "RoutingConfig": {"AdditionalVersionWeights": {"8": 0.25}}}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("CREATE_COMPLETE", OK),
        ("UPDATE_COMPLETE", OK),
        ("UPDATE_IN_PROGRESS", WARNING),
        ("UPDATE_ROLLBACK_COMPLETE", WARNING),
        ("UPDATE_ROLLBACK_FAILED", FAILED),
    ],
)
def test_the_status_of_a_stack(aws, snapshot, status, state):
    """A stack that is not complete is named."""
    deployed(aws, stack("Batch", status))
    found = check_stacks(snapshot())
    words = "2 stacks are complete" if state == OK else f"EmbeddingKit-dev-Batch: {status}"
    assert (found.state, found.found) == (state, words)


def test_an_environment_that_is_not_deployed_is_ill(aws, snapshot):
    """With account and region, as they may be the wrong ones."""
    identify(aws)
    # The part of another environment's name is not of this one.
    other = stack(environment="dev-x")
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [other]})
    found = check_stacks(snapshot(environment="dev", url=None))
    assert (found.state, found.found) == (
        FAILED,
        "EmbeddingKit-dev-Endpoint does not exist in 123456789012, eu-central-1",
    )


@pytest.mark.parametrize(
    ("listed", "state", "words"),
    [
        ("Endpoint,Observability", WARNING, "the last deploy did not have EmbeddingKit-dev-B"),
        ("Endpoint,Observability,Batch", OK, "3 stacks are complete"),
        (None, OK, "3 stacks are complete"),
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


ROLLED_BACK = {
    "creator": "codeDeployRollback",
    "rollbackInfo": {"rollbackTriggeringDeploymentId": "d-0"},
}


@pytest.mark.parametrize(
    ("status", "more", "state", "words"),
    [
        ("Succeeded", {"completeTime": NOW - timedelta(hours=1)}, OK, ", 1 hour ago"),
        ("InProgress", {"createTime": NOW - timedelta(minutes=2)}, WARNING, ", 2 minutes ago"),
        ("Stopped", {"rollbackInfo": {"rollbackMessage": "an alarm"}}, WARNING, " (an alarm)"),
        ("Failed", {"errorInformation": {"message": "no version"}}, WARNING, " (no version)"),
        ("Failed", {}, WARNING, ""),
        ("Succeeded", ROLLED_BACK, WARNING, " (it rolled d-0 back)"),
    ],
)
def test_the_last_release(aws, snapshot, *, status, more, state, words):
    """After a failed one the version before serves, so it is a warning."""
    deployed(aws)
    released(aws, {"status": status, **more})
    found = check_release(snapshot())
    assert (found.state, found.found) == (state, f"d-1: {status}{words}")


def test_an_endpoint_without_a_release_is_well(aws, snapshot):
    """The first deploy is not a release."""
    deployed(aws)
    released(aws, None)
    assert check_release(snapshot()).found == "no release has replaced a version yet"


@pytest.mark.parametrize(
    ("configuration", "state", "words"),
    [
        ({"State": "Active"}, OK, ""),
        ({"State": "Inactive"}, WARNING, ""),
        ({"State": "Failed", "StateReason": "no image"}, FAILED, " (no image)"),
        ({"State": "Active", "LastUpdateStatus": "Failed"}, FAILED, " (no reason given)"),
    ],
)
def test_the_version_that_serves(aws, snapshot, configuration, state, words):
    """That of the alias, not the newest one; one that is Active has pulled its image."""
    deployed(aws)
    answer = {"Version": "3", "MemorySize": 1769, **configuration}
    asked = {"FunctionName": "embedder", "Qualifier": "live"}
    aws.answers("lambda", "get_function_configuration", answer, asked)
    found = check_version(snapshot())
    words = f"version 3 is {configuration['State']}, 1,769 MB{words}"
    assert (found.state, found.found) == (state, words)


def test_an_alias_without_weights_is_well(aws, snapshot):
    """Its version is named."""
    deployed(aws)
    aws.answers("lambda", "get_alias", {"FunctionVersion": "7"})
    assert check_weights(snapshot()).found == "none: version 7 gets all requests"


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


def released(aws, deployment):
    kinds = ("Application", "DeploymentGroup")
    items = resources({f"AWS::CodeDeploy::{kind}": [kind] for kind in kinds})
    aws.answers("cloudformation", "list_stack_resources", items)
    last = {"deploymentId": "d-1"}
    group = {"lastAttemptedDeployment": last} if deployment else {}
    asked = {"applicationName": "Application", "deploymentGroupName": "DeploymentGroup"}
    aws.answers("codedeploy", "get_deployment_group", {"deploymentGroupInfo": group}, asked)
    if deployment:
        aws.answers("codedeploy", "get_deployment", {"deploymentInfo": last | deployment})


SHARES = "version 7: 75%, version 8: 25%, "


@pytest.mark.parametrize(
    ("stack_status", "alias", "by"),
    [
        ("UPDATE_COMPLETE", {"RoutingConfig": {}}, "an experiment by weights"),
        ("UPDATE_IN_PROGRESS", {}, "a running update of the stack"),
    ],
)
def test_an_experiment_and_a_running_update_explain_weights(aws, snapshot, stack_status, alias, by):
    """An experiment has them in the template."""
    weighted(aws, stack_status, **alias)
    found = check_weights(snapshot())
    assert (found.state, found.found) == (OK, f"{SHARES}by {by}")


@pytest.mark.parametrize(("status", "state"), [("InProgress", OK), ("Failed", FAILED)])
def test_only_a_running_release_explains_weights(aws, snapshot, status, state):
    """A failed one has left them, and the command that clears them is named."""
    weighted(aws)
    released(aws, {"status": status})
    found = check_weights(snapshot())
    assert found.state == state
    if state == FAILED:
        assert found.found == f"{SHARES}and no release is running: AWS refuses further releases"
        assert found.advice.startswith("scripts/reset-traffic dev")


def test_without_a_deployment_group_no_release_explains_weights(aws, snapshot):
    """As for an alias that somebody changed by hand."""
    weighted(aws)
    aws.answers("cloudformation", "list_stack_resources", resources({}))
    assert check_weights(snapshot()).state == FAILED


DIGEST = "sha256:" + "a" * 64


URI = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/embedding-kit-dev"


def days_ago(days):
    return NOW - timedelta(days=days)


def looked_up(aws, code, asked, images=(), pushed=4):
    deployed(aws)
    aws.answers("lambda", "get_function", {"Configuration": {"PackageType": "Image"}, "Code": code})
    where = {
        "registryId": "123456789012",
        "repositoryName": "embedding-kit-dev",
        "imageIds": [asked],
    }
    detail = {"imagePushedAt": days_ago(pushed)} if pushed else {}
    aws.answers("ecr", "describe_images", {"imageDetails": [detail]}, where)
    aws.answers("ecr", "batch_get_image", {"images": list(images)}, where)


@pytest.mark.parametrize(
    ("made", "state", "words"),
    [
        ([days_ago(90), days_ago(1)], OK, "made 90 days ago"),
        ([days_ago(91)], WARNING, "made 91 days ago, which is more than 90"),
        ([], OK, "unknown; the image was pushed 4 days ago"),
        # A build that hides its time.
        ([days_ago(20_000)], OK, "unknown; the image was pushed 4 days ago"),
    ],
)
def test_an_old_base_is_a_warning(aws, snapshot, made, state, words):
    """Of the oldest line of history, in a file that is read by the digest and ECR's URL."""
    manifest = json.dumps({"config": {"digest": DIGEST}})
    code = {"ImageUri": f"{URI}:tag", "ResolvedImageUri": f"{URI}@{DIGEST}"}
    looked_up(aws, code, {"imageDigest": DIGEST}, [{"imageManifest": manifest}])
    aws.answers("ecr", "get_download_url_for_layer", {"downloadUrl": "https://s3/config"})
    # As Docker writes it.
    nanoseconds = "%Y-%m-%dT%H:%M:%S.000000000Z"
    layers = [{"created": at.strftime(nanoseconds)} for at in made] or [{"created_by": "COPY"}]
    found = check_image(snapshot(lambda _: httpx2.Response(200, json={"history": layers})))
    assert (found.state, found.found) == (state, words)


TAGGED = {"ImageUri": f"{URI}:tag"}, {"imageTag": "tag"}


@pytest.mark.parametrize("images", [[], [{"imageManifest": "{}"}]])
def test_without_a_configuration_the_push_counts(aws, snapshot, images):
    """As of an image that is an empty manifest; without any date, nothing is guessed."""
    looked_up(aws, *TAGGED, images)
    assert check_image(snapshot()).data["days"] == 4
    looked_up(aws, *TAGGED, images, pushed=None)
    with pytest.raises(SkippedError, match="neither the image nor the repository has a date"):
        check_image(snapshot())


def test_a_zip_has_no_base_image(aws, snapshot):
    """AWS patches its runtime."""
    deployed(aws)
    aws.answers("lambda", "get_function", {"Configuration": {"PackageType": "Zip"}, "Code": {}})
    with pytest.raises(SkippedError, match="AWS patches the runtime of a zip"):
        check_image(snapshot())
