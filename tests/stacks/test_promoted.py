"""With `-c images=...` the stacks use images or a zip that are stored already, and build none."""

import json
import re
from typing import Any

import pytest
from aws_cdk import App

from stacks.environment import EnvironmentSettings
from stacks.environment_stacks import EnvironmentStacks
from stacks.promoted import parse_images

from .conftest import CONTEXT, of_kind

ENDPOINT, BATCH, SERVER = (f"sha256:{character * 64}" for character in "abc")
ZIP, ARTIFACT = ("d" * 64, "e" * 64)
DIGESTS = {"zip": f"sha256:{ZIP}", "artifact": f"sha256:{ARTIFACT}"}
IN_S3: dict[str, Any] = {
    "function": {"package": "zip", "artifact": "s3"},
    "cold_start": {"kind": "snapstart"},
}
QUALIFIER = {"@aws-cdk/core:bootstrapQualifier": "mine"}
_OF_TWO = ("endpoint", "batch", "standby-endpoint", "standby-batch")


@pytest.fixture
def synth(tmp_path, environments):
    """Synthesize an environment with images; return the functions, and what the endpoint builds.

    Those are of all stacks; an asset is an image or a file.
    """

    def synth(name, images, *, context=None, **changes):
        app = App(
            context=CONTEXT | (context or {}), analytics_reporting=False, outdir=str(tmp_path)
        )
        environment = EnvironmentSettings(**{**dict(environments[name]), **changes})
        EnvironmentStacks(app, environment, images=images)
        functions = [
            properties
            for stack in app.synth().stacks
            for properties in of_kind(stack.template, "AWS::Lambda::Function")
        ]
        manifests = [json.loads(file.read_text()) for file in tmp_path.glob("*.assets.json")]
        assert [
            manifest["dockerImages"] for manifest in manifests if manifest.get("dockerImages")
        ] == []
        assets = json.loads((tmp_path / "EmbeddingKit-dev-Endpoint.assets.json").read_text())
        assert not [file for file in assets["files"].values() if "executable" in file["source"]]
        return functions, assets["files"].values()

    return synth


def test_the_functions_run_the_image_and_none_is_built(synth):
    """The endpoint and the check of its releases; everything else is as without the image."""
    functions, _ = synth("dev", {"endpoint": ENDPOINT})
    codes = [function["Code"] for function in functions]
    uris = [json.dumps(code["ImageUri"]) for code in codes if "ImageUri" in code]
    assert [f"/embedding-kit-dev@{ENDPOINT}" in uri for uri in uris] == [True, True]


def test_each_model_runs_its_own_images(synth):
    """The endpoint and its check have one, and the function to compare with the other."""
    images = {name: f"sha256:{number:064d}" for number, name in enumerate(_OF_TWO)}
    used = {
        function["Description"]: [
            name for name, digest in images.items() if digest in json.dumps(function)
        ]
        for function in synth("standby", images)[0]
        if function.get("PackageType") == "Image"
    }
    live_model, standby_model = "sentence-transformers/all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5"
    assert used == {
        f"Embeddings by {live_model}": ["endpoint"],
        "Warms and checks a new version before the alias moves to it": ["endpoint"],
        f"Documents embedded by {live_model}": ["batch"],
        f"Embeddings by {standby_model}": ["standby-endpoint"],
        f"Documents embedded by {standby_model}": ["standby-batch"],
    }


def _runs(functions, bucket):
    """Return the handlers of the functions that run the zip from a bucket."""
    code = {"S3Bucket": bucket, "S3Key": f"{ZIP}.zip"}
    return sorted(function["Handler"] for function in functions if function["Code"] == code)


HANDLERS = ["embedder.aws_lambda.handler.handler", "jobs.release_check.handler.handler"]


@pytest.mark.parametrize(("context", "qualifier"), [({}, "hnb659fds"), (QUALIFIER, "mine")])
def test_the_functions_run_the_zip_and_none_is_built(synth, context, qualifier):
    """It is in the bucket of bootstrap, to which the stack's other files are published."""
    functions, files = synth("zip", {"zip": f"sha256:{ZIP}"}, context=context)
    bucket = f"cdk-{qualifier}-assets-${{AWS::AccountId}}-${{AWS::Region}}"
    assert _runs(functions, {"Fn::Sub": bucket}) == HANDLERS
    published = [destination for file in files for destination in file["destinations"].values()]
    assert {destination["bucketName"] for destination in published} == {bucket}


@pytest.mark.parametrize(
    ("place", "bucket"),
    [
        ({}, {"Fn::Sub": "kit-dev-${AWS::AccountId}-${AWS::Region}"}),
        # As in the stack of the bucket.
        (
            {"account": "111122223333", "region": "eu-central-1"},
            "kit-dev-111122223333-eu-central-1",
        ),
    ],
)
def test_an_artifact_is_in_the_bucket_of_the_environment(synth, place, bucket):
    """The function downloads the artifact that was built with the zip."""
    functions, _ = synth("zip", DIGESTS, **IN_S3, **place)
    assert _runs(functions, bucket) == HANDLERS
    assert f"/artifact/{ARTIFACT}" in json.dumps(functions)


@pytest.mark.parametrize(
    ("name", "images", "changes", "message"),
    [
        ("dev", {"batch": BATCH}, {}, "an image of the target endpoint; found: batch"),
        ("standby", {"endpoint": ENDPOINT, "batch": BATCH}, {}, "an image of the target standby-"),
        ("zip", {"zip": DIGESTS["zip"]}, IN_S3, "the package artifact; found: zip; allowed"),
        ("zip", {"endpoint": ENDPOINT}, {}, "the package zip; found: endpoint; allowed"),
    ],
)
def test_what_is_missing_is_named(synth, name, images, changes, message):
    """The deploy's own check comes first; this is for the CDK's command without it."""
    with pytest.raises((RuntimeError, ValueError), match=f"needs {message}"):
        synth(name, images, **changes)


def test_the_context_has_a_digest_of_each_target():
    """As `scripts/deploy --image` writes it."""
    written = f"endpoint={ENDPOINT},batch={BATCH},server={SERVER}"
    assert parse_images(written) == {"endpoint": ENDPOINT, "batch": BATCH, "server": SERVER}
    assert parse_images(None) == {}


@pytest.mark.parametrize("value", [ENDPOINT, "endpoint=latest", f"endpoint={ENDPOINT},", 1])
def test_another_value_is_refused(value):
    """Such as a tag, which may move to another image."""
    with pytest.raises(ValueError, match=re.escape(f"context images: found: {value!r}; allowed:")):
        parse_images(value)
