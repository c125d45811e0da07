"""Packages in a bucket whose name can be guessed, and images by their digests."""

import hashlib
import json

import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY

from operations import packages
from operations.packages import ImageRepository, PackageBucket, RepositoryAddress, needed_targets
from tests.fixtures.local_server import QuietHandler, serving

from .conftest import HOME, REGION, dev_with

BUCKET = f"cdk-hnb659fds-assets-{HOME}-{REGION}"
OCI = "application/vnd.oci.image"


def digest_of(content: bytes) -> str:
    """Return the digest of a content, as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


FOLDERS = {"input": "s3://texts/", "output": "s3://vectors/"}


@pytest.mark.parametrize(
    ("tables", "targets"),
    [
        ({}, ["endpoint"]),
        ({"batch": FOLDERS}, ["endpoint", "batch"]),
        ({"index": {}}, ["endpoint"]),
        ({"index": {}, "ingest": {}}, ["endpoint", "batch"]),
        ({"function": {"package": "zip"}}, ["zip"]),
        (
            {"index": {}, "ingest": {}, "standby": {"name": "BAAI/bge-small-en-v1.5"}},
            ["endpoint", "batch", "standby-endpoint", "standby-batch"],
        ),
    ],
)
def test_what_an_environment_runs_is_needed(tables, targets):
    """A deploy without one of them would build it, or fail."""
    assert needed_targets(dev_with(**tables)) == targets


@pytest.mark.parametrize("name", [BUCKET, "team-artifacts"])
def test_each_call_on_a_bucket_named_by_account_states_the_owner(
    session, monkeypatch, tmp_path, name
):
    """Another account may have taken the name; one that is not guessed has no account in it."""
    stub, file = session.stubs["s3"], tmp_path / "a.zip"
    monkeypatch.setattr(packages, "bootstrap_client", lambda *_, **__: stub.client)
    monkeypatch.setattr(session, "create_client", lambda *_, **__: stub.client)
    file.write_bytes(b"zip")
    head = {"Bucket": name, "Key": "a.zip"}
    head |= {"ExpectedBucketOwner": HOME} if name == BUCKET else {}
    stub.add_response("head_object", {}, head)
    stub.add_client_error("head_object", "404", http_status_code=404, expected_params=head)
    stub.add_response("put_object", {}, {"Body": ANY, **head})
    stub.add_client_error("get_object", "AccessDenied", expected_params=head)
    bucket = PackageBucket(session, name)
    assert bucket.has("a.zip")
    bucket.write("a.zip", file)
    with pytest.raises(ClientError, match="AccessDenied"):
        bucket.read("a.zip", digest_of(b"zip"), tmp_path / "b.zip")


def test_what_a_registry_answers_is_checked(session, monkeypatch):
    """Other content under a digest is refused, as is an index of images."""
    image = json.dumps({"config": {"digest": digest_of(b"{}"), "size": 2}, "layers": []}).encode()
    contents = {
        digest_of(image): (image, f"{OCI}.manifest.v1+json"),
        digest_of(b"other"): (image, f"{OCI}.manifest.v1+json"),
        digest_of(b"index"): (b"index", f"{OCI}.index.v1+json"),
        digest_of(b"{}"): (b"{}", "application/octet-stream"),
    }

    class Registry(QuietHandler):
        def respond(self) -> None:
            content, media_type = contents.get(self.path.rpartition("/")[2], (b"", ""))
            self.answer(200 if content else 404, content, Content_Type=media_type)

    with serving(Registry) as url:
        monkeypatch.setattr(packages, "registry_client", lambda *_: session.stubs["ecr"].client)
        data = {"authorizationToken": "dG9rZW4=", "proxyEndpoint": url}
        session.stubs["ecr"].add_response(
            "get_authorization_token", {"authorizationData": [data]}, {}
        )
        repository = ImageRepository(session, RepositoryAddress(HOME, REGION, "kit"))
        assert repository.find(digest_of(b"none")) is None
        image_found = repository.find(digest_of(image))
        assert image_found
        assert image_found.manifest == image
        with pytest.raises(ValueError, match=f"answered {digest_of(b'other')} with other content"):
            repository.find(digest_of(b"other"))
        with pytest.raises(ValueError, match=r"runs no index of images; found: .*index\.v1"):
            repository.find(digest_of(b"index"))
        repository.close()
