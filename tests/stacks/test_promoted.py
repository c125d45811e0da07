"""With `-c images=zip=...` a stack uses a zip that is in its bucket, and builds none."""

import json
from typing import Any

import pytest
from aws_cdk import App

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.settings import Model
from stacks.environment_stacks import EnvironmentStacks

from .conftest import ROOT

ZIP, ARTIFACT = ("a" * 64, "b" * 64)
SETTINGS: dict[str, Any] = {
    "name": "dev",
    "model": Model(name="sentence-transformers/all-MiniLM-L6-v2"),
}
IN_S3: dict[str, Any] = {
    "function": {"package": "zip", "artifact": "s3"},
    "cold_start": {"kind": "snapstart"},
}
QUALIFIER = {"@aws-cdk/core:bootstrapQualifier": "mine"}


@pytest.fixture
def synth(tmp_path):
    """Synthesize the endpoint's stack; return its functions, and the files that it publishes."""

    def synth(images, *, context=None, **settings):
        context = json.loads((ROOT / "cdk.json").read_text())["context"] | (context or {})
        app = App(context=context, analytics_reporting=False, outdir=str(tmp_path))
        environment = EnvironmentSettings(
            **(SETTINGS | {"function": {"package": "zip"}} | settings)
        )
        EnvironmentStacks(app, environment, images=images)
        stack = app.synth().get_stack_by_name("EmbeddingKit-dev-Endpoint")
        manifest = json.loads((tmp_path / "EmbeddingKit-dev-Endpoint.assets.json").read_text())
        functions = [
            resource["Properties"]
            for resource in stack.template["Resources"].values()
            if resource["Type"] == "AWS::Lambda::Function"
        ]
        return functions, manifest["files"].values()

    return synth


def _runs(functions, bucket):
    """Return the handlers of the functions that run the zip from a bucket."""
    code = {"S3Bucket": {"Fn::Sub": bucket}, "S3Key": f"{ZIP}.zip"}
    return sorted(function["Handler"] for function in functions if function["Code"] == code)


HANDLERS = ["embedder.aws_lambda.handler.handler", "jobs.release_check.handler.handler"]


@pytest.mark.parametrize(("context", "qualifier"), [({}, "hnb659fds"), (QUALIFIER, "mine")])
def test_the_functions_run_the_zip_and_none_is_built(synth, context, qualifier):
    """It is in the bucket of bootstrap, to which the stack's other files are published."""
    functions, files = synth({"zip": f"sha256:{ZIP}"}, context=context)
    bucket = f"cdk-{qualifier}-assets-${{AWS::AccountId}}-${{AWS::Region}}"
    assert _runs(functions, bucket) == HANDLERS
    assert files
    assert not [file for file in files if "executable" in file["source"]]
    published = [place for file in files for place in file["destinations"].values()]
    assert {place["bucketName"] for place in published} == {bucket}


def test_an_artifact_is_in_the_bucket_of_the_environment(synth):
    """The function downloads the artifact that was built with the zip."""
    digests = {"zip": f"sha256:{ZIP}", "artifact": f"sha256:{ARTIFACT}"}
    functions, files = synth(digests, **IN_S3)
    bucket = "kit-dev-${AWS::AccountId}-${AWS::Region}"
    assert _runs(functions, bucket) == HANDLERS
    assert not [file for file in files if "executable" in file["source"]]
    assert f"/artifact/{ARTIFACT}" in json.dumps(functions)


def test_the_bucket_of_a_known_account_is_plain_text(synth):
    """As in the stack of the bucket."""
    digests = {"zip": f"sha256:{ZIP}", "artifact": f"sha256:{ARTIFACT}"}
    place = {"account": "111122223333", "region": "eu-central-1"}
    functions, _ = synth(digests, **IN_S3, **place)
    buckets = {str(function["Code"]["S3Bucket"]) for function in functions}
    assert "kit-dev-111122223333-eu-central-1" in buckets


def test_a_package_that_is_missing_is_named(synth):
    """The deploy's own check comes first; this is for the CDK's command without it."""
    with pytest.raises(ValueError, match="needs the package artifact; found: zip; allowed"):
        synth({"zip": f"sha256:{ZIP}"}, **IN_S3)
    with pytest.raises(ValueError, match="needs the package zip; found: endpoint; allowed"):
        synth({"endpoint": f"sha256:{ZIP}"})
