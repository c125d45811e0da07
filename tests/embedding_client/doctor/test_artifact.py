"""The artifact in S3 that the serving version downloads."""

import pytest

from embedding_client.doctor.artifact import check_artifact, judge_artifact, parse_place
from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.outside import NotPermittedError

from .conftest import deployed

BUCKET = "kit-dev-123456789012-eu-central-1"
KEY = "artifact/0123"
LOCATION = f"s3://{BUCKET}/{KEY}"
ASKED = {"Bucket": BUCKET, "Prefix": KEY, "MaxKeys": 1}


def serve(aws, **variables):
    """Answer with the configuration of the version behind the alias."""
    deployed(aws)
    configuration = {"Environment": {"Variables": variables}}
    aws.answers("lambda", "get_function_configuration", configuration)


def test_an_object_under_the_versions_key_is_well(aws, facts):
    """The finding has its size."""
    serve(aws, EMBEDDING_ARTIFACT_LOCATION=LOCATION)
    aws.answers("s3", "list_objects_v2", {"Contents": [{"Key": KEY, "Size": 324_000_000}]}, ASKED)
    found = check_artifact(facts())
    assert (found.state, found.found) == (State.OK, f"324 MB in {BUCKET}")
    assert found.data == {"bytes": 324_000_000}


@pytest.mark.parametrize("listed", [[], [{"Key": f"{KEY}4", "Size": 1}]])
def test_a_missing_object_is_ill(aws, facts, listed):
    """A longer key with the same beginning is another artifact."""
    serve(aws, EMBEDDING_ARTIFACT_LOCATION=LOCATION)
    aws.answers("s3", "list_objects_v2", {"Contents": listed}, ASKED)
    found = check_artifact(facts())
    assert found.state == State.ILL
    assert found.found.startswith(f"{LOCATION} does not exist")
    assert "scripts/deploy" in found.advice


def test_a_missing_bucket_is_ill(aws, facts):
    """The object is gone with it."""
    serve(aws, EMBEDDING_ARTIFACT_LOCATION=LOCATION)
    aws.refuses("s3", "list_objects_v2", "NoSuchBucket")
    assert check_artifact(facts()).state == State.ILL


def test_variables_that_cannot_be_decrypted_are_skipped(aws, facts):
    """Lambda then answers with an error instead, and the artifact may be anywhere."""
    deployed(aws)
    error = {"ErrorCode": "AccessDeniedException", "Message": "Lambda was unable to decrypt"}
    aws.answers("lambda", "get_function_configuration", {"Environment": {"Error": error}})
    with pytest.raises(SkippedError, match="variables cannot be read: Lambda was unable to decr"):
        check_artifact(facts())


def test_an_empty_object_is_ill():
    """No artifact is empty."""
    assert judge_artifact(parse_place(LOCATION), 0).found.startswith(f"{LOCATION} is empty")


def test_a_missing_permission_is_named_as_iam_names_it(aws, facts):
    """The operation has another name than its permission."""
    serve(aws, EMBEDDING_ARTIFACT_LOCATION=LOCATION)
    aws.refuses("s3", "list_objects_v2", "AccessDenied")
    with pytest.raises(NotPermittedError, match="s3:ListBucket"):
        check_artifact(facts())


def test_an_artifact_in_the_package_is_skipped(aws, facts):
    """Lambda has it with the code."""
    serve(aws)
    with pytest.raises(SkippedError, match="the artifact is in the package"):
        check_artifact(facts())
