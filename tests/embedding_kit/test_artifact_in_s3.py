"""Test a zip with its artifact in S3: what is published, what the function gets and may do."""

import json
from typing import Any

import pytest
from aws_cdk import App, DefaultStackSynthesizer, Environment, Stack
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Match, Template

from embedding_kit import FunctionSettings, ModelSettings, SnapStart
from tests.embedding_kit.endpoints import make_endpoint
from tests.embedding_kit.roles import HOME, allowed, of_kind

KEY = f"arn:aws:kms:us-east-1:{HOME}:key/1111aaaa-22bb-33cc-44dd-555566667777"
BUCKET = "kit-dev-${AWS::AccountId}-${AWS::Region}"
#: Its name with the account and the region of the tests' roles.
NAME = f"kit-dev-{HOME}-us-east-1"


@pytest.fixture(scope="session")
def synthesize_s3(tmp_path_factory):
    """Synthesize a stack of an endpoint with its artifact in S3; return template and assets."""

    def make(
        model: ModelSettings,
        *,
        bucket: str | None = BUCKET,
        key: str | None = None,
        env: Environment | None = None,
        **settings: Any,
    ) -> tuple[Template, dict]:
        out = tmp_path_factory.mktemp("out")
        synthesizer = DefaultStackSynthesizer(file_assets_bucket_name=bucket)
        stack = Stack(App(outdir=str(out)), "Stack", synthesizer=synthesizer, env=env)
        function = FunctionSettings(package="zip", artifact="s3", **settings)
        make_endpoint(
            stack,
            model=model,
            function=function,
            cold_start=SnapStart(),
            environment_encryption=kms.Key.from_key_arn(stack, "Key", key) if key else None,
        )
        template = Template.from_stack(stack)
        return template, json.loads((out / "Stack.assets.json").read_text())

    return make


@pytest.fixture(scope="session")
def made(synthesize_s3, model):
    return synthesize_s3(model, key=KEY)


def _artifact(assets: dict) -> tuple[str, list[str]]:
    """Return the key and the command of the artifact."""
    ((name, file),) = (
        (name, file) for name, file in assets["files"].items() if name.startswith("artifact/")
    )
    (destination,) = file["destinations"].values()
    assert destination["objectKey"] == name
    assert destination["bucketName"] == BUCKET
    return name, file["source"]["executable"]


def test_the_function_gets_the_place_of_the_artifact(made):
    """The key is the asset's, so a deploy publishes what the new version downloads."""
    template, assets = made
    key, command = _artifact(assets)
    assert "--artifact-object" in command
    template.has_resource_properties(
        "AWS::Lambda::Function",
        {
            "Handler": "embedder.aws_lambda.handler.handler",
            "Environment": {
                "Variables": Match.object_like(
                    {
                        "EMBEDDING_ARTIFACT_LOCATION": {
                            "Fn::Join": ["", ["s3://", {"Fn::Sub": BUCKET}, f"/{key}"]]
                        }
                    }
                )
            },
        },
    )


def test_the_zip_has_no_artifact(made):
    """Embedder and check run one zip, which is built without it and lies next to the artifact."""
    template, assets = made
    commands = [
        file["source"]["executable"]
        for file in assets["files"].values()
        if "executable" in file["source"]
    ]
    assert sorted("--without-artifact" in command for command in commands) == [False, True]
    functions = [
        function["Code"]["S3Key"]
        for function in of_kind(template, "AWS::Lambda::Function")
        if function.get("Handler", "").endswith(".handler.handler")
    ]
    assert len(functions) == 2
    assert len(set(functions)) == 1
    assert not functions[0].startswith("artifact/")


def test_the_key_changes_with_the_model_alone(synthesize_s3, made, model):
    """Settings of the function publish no other artifact; another model does."""
    key, _ = _artifact(made[1])
    same, _ = _artifact(synthesize_s3(model, memory_mb=3000)[1])
    exact, _ = _artifact(synthesize_s3(model.model_copy(update={"precision": "fp32"}))[1])
    assert key == same != exact


MAY = [
    ("EndpointEmbedderRole", "s3:GetObject", f"arn:aws:s3:::{NAME}/artifact/0123"),
    ("EndpointEmbedderRole", "kms:Decrypt", KEY),
]
MAY_NOT = [
    ("EndpointEmbedderRole", "s3:GetObject", f"arn:aws:s3:::{NAME}/0123"),
    ("EndpointEmbedderRole", "s3:GetObject", f"arn:aws:s3:::{NAME}-other/artifact/0123"),
    ("EndpointEmbedderRole", "s3:PutObject", f"arn:aws:s3:::{NAME}/artifact/0123"),
    ("EndpointEmbedderRole", "s3:DeleteObject", f"arn:aws:s3:::{NAME}/artifact/0123"),
    ("EndpointEmbedderRole", "s3:ListBucket", f"arn:aws:s3:::{NAME}"),
    ("EndpointEmbedderRole", "kms:Encrypt", KEY),
    ("EndpointEmbedderRole", "kms:GenerateDataKey", KEY),
    ("EndpointEmbedderRole", "kms:Decrypt", KEY.replace("1111", "2222")),
]


def test_the_role_reads_artifacts_of_all_versions_and_does_nothing_else(made):
    """All versions have one role, and an old one may be initialized again."""
    assert allowed(made[0], MAY + MAY_NOT) == MAY


def test_the_permission_is_there_before_the_first_initialization(made):
    """Publishing a version with SnapStart initializes it, so the policy must come first."""
    template, _ = made
    (function,) = (
        function
        for function in template.find_resources("AWS::Lambda::Function").values()
        if function["Properties"].get("Handler") == "embedder.aws_lambda.handler.handler"
    )
    assert any("RoleDefaultPolicy" in name for name in function["DependsOn"])


@pytest.mark.parametrize("env", [None, Environment(account=HOME, region="eu-central-1")])
def test_the_bootstrap_bucket_is_refused(synthesize_s3, model, env):
    """`cdk gc` would delete an artifact that only an older version needs."""
    with pytest.raises(ValueError, match="what only older versions download; found: a stack that"):
        synthesize_s3(model, bucket=None, env=env)
