"""The age of the base image."""

import json
from datetime import timedelta

import httpx
import pytest

from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.image import Ages, ages_of, check_image, judge_image

from .conftest import NOW, deployed

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
    found = judge_image(ages, now=NOW, days=90)
    assert (found.state, found.found) == (state, words)


def test_an_image_without_dates_is_skipped():
    """Nothing is guessed."""
    with pytest.raises(SkippedError, match="neither the image nor the repository has a date"):
        judge_image(Ages(None, None), now=NOW, days=90)


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


def test_the_configuration_is_read_from_the_repository(aws, facts):
    """By the digest that Lambda resolved, with the URL that ECR signs."""
    manifest = json.dumps({"config": {"digest": DIGEST}})
    code = {"ImageUri": f"{URI}:tag", "ResolvedImageUri": f"{URI}@{DIGEST}"}
    looked_up(aws, code, {"imageDigest": DIGEST}, [{"imageManifest": manifest}])
    aws.answers("ecr", "get_download_url_for_layer", {"downloadUrl": "https://s3/config"})
    config = {"history": [{"created": days_ago(100).isoformat()}]}
    found = check_image(facts(lambda _: httpx.Response(200, json=config)))
    assert (found.state, found.data["days"]) == (State.WARNING, 100)


def test_without_a_configuration_the_push_counts(aws, facts):
    """As of an image that is an empty manifest."""
    looked_up(aws, {"ImageUri": f"{URI}:tag"}, {"imageTag": "tag"}, [{"imageManifest": "{}"}])
    assert check_image(facts()).found == "unknown; the image was pushed 2 days ago"
    looked_up(aws, {"ImageUri": f"{URI}:tag"}, {"imageTag": "tag"})
    assert check_image(facts()).data["days"] == 2


def test_a_zip_has_no_base_image(aws, facts):
    """AWS patches its runtime."""
    deployed(aws)
    aws.answers("lambda", "get_function", {"Configuration": {"PackageType": "Zip"}, "Code": {}})
    with pytest.raises(SkippedError, match="AWS patches the runtime of a zip"):
        check_image(facts())
