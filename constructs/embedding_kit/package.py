"""The code of functions and tasks: the recipes of images and zips, and an artifact in S3.

Synth builds no zip, as with an image: it names the zip by the digest of its sources, and
writes the command into the cloud assembly. The CDK's command runs it when it publishes the zip, and
only if the bucket has none of that name. So synth needs no network, no compiler and no model, takes
no longer, and gives the same template on every machine. An artifact in S3 is published likewise.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from aws_cdk import (
    AssetStaging,
    Aws,
    DefaultStackSynthesizer,
    FileAssetLocation,
    IgnoreMode,
    Stack,
    SymlinkFollowMode,
    Token,
)
from aws_cdk import aws_ecr_assets as assets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.image_identity import build_arguments, files_digest, model_arguments, models_json
from embedding_kit.permissions import READ_KEY, grant
from embedding_kit.programs import image_folder
from embedding_kit.settings import ModelSettings
from embedding_kit.settings.base import rule_error
from embedding_kit.settings.compatibility import check_server
from embedding_kit.storage import ARTIFACTS, bootstrap_value

#: Files of one target only. Without them in its context, another image does not change with them.
_OWN_FILES = {
    "batch": [
        "batch-requirements.txt",
        "jobs/command.py",
        "jobs/embed",
        "jobs/errors.py",
        "jobs/ingest",
        "jobs/load",
        "jobs/rows.py",
        "jobs/steps.py",
        "jobs/storage.py",
    ],
    "server": ["embedder/server", "server-requirements.txt"],
}


def image_code(
    model: ModelSettings,
    *,
    command: list[str] | None = None,
    target: Literal["batch"] | None = None,
) -> lambda_.DockerImageCode:
    """Return the image of a function; every use of the same model gives the same image.

    Without a `command` it runs the embedder, and without a `target` it is the Dockerfile's last
    stage, the endpoint's.
    """
    return lambda_.DockerImageCode.from_image_asset(
        str(image_folder()), cmd=command, **_recipe(model, target)
    )


def server_image(scope: Construct, id: str, model: ModelSettings) -> assets.DockerImageAsset:
    """Return the image of the server's tasks.

    Raises:
        ValueError: There are several models, and a server runs one.
    """
    check_server(model)
    recipe = _recipe(model, "server")
    return assets.DockerImageAsset(scope, id, directory=str(image_folder()), **recipe)


#: What pip reads on the deploying machine, by the names of the image's secrets. An index may have a
#: password in its URL. The first of `_CERTIFICATES` that is set is taken, as they may differ.
_INDEXES = {"index_url": "PIP_INDEX_URL", "extra_index_url": "PIP_EXTRA_INDEX_URL"}
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")


def build_secrets(model: ModelSettings, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of an image's build, each as a variable's name or a file's path.

    Values are read when the image is built. No secret is in a layer, an argument or the hash.

    Raises:
        PydanticCustomError: A `ValueError`; a variable names no file with certificates.
    """
    named = {"hub_token": model.hub_token_variable}
    named |= {secret: name for secret, name in _INDEXES.items() if variables.get(name)}
    secrets = {secret: f"env={name}" for secret, name in named.items() if name}
    source = next((name for name in _CERTIFICATES if variables.get(name)), None)
    if source:
        file = Path(variables[source]).absolute()
        if not file.is_file():
            raise rule_error(
                f"{source} names a file with the certificates that the image's build trusts",
                found=variables[source],
                allowed=f"an existing file, or no {source}",
            )
        secrets["certificates"] = f"src={file}"
    return secrets


def _recipe(model: ModelSettings, target: str | None) -> dict[str, Any]:
    """Return how the image of a target is built; functions and tasks have the same properties."""
    contexts = {
        table: str(source.folder) for table, source in model.tables.items() if source.folder
    }
    if model.index:
        contexts["texts"] = str(model.index.parent)
    return {
        "target": target,
        "exclude": [file for name, files in _OWN_FILES.items() if name != target for file in files],
        # In a checkout, `jobs/rows.py` is a link to the client's module.
        "follow_symlinks": SymlinkFollowMode.EXTERNAL,
        "platform": assets.Platform.LINUX_ARM64,
        "build_args": build_arguments(model),
        "build_secrets": build_secrets(model, os.environ) or None,
        # A named context replaces the Dockerfile's empty stage of that name in BuildKit.
        "build_contexts": contexts or None,
        # The CDK hashes the image's folder and the arguments, but not the named contexts. Their
        # paths on this machine must not change the image, nor where it gets packages from.
        "extra_hash": files_digest(model.files),
        "invalidation": assets.DockerImageAssetInvalidationOptions(
            build_contexts=False, build_secrets=False
        ),
    }


#: What the zip is built from; nothing else changes it.
_ZIP_FILES = [
    ".python-version",
    "build_zip.py",
    "compiler-requirements.txt",
    "embedder",
    "finish_layer.py",
    "jobs",
    "model_compiler",
    "requirements.txt",
    "unused-files.txt",
    "zip_builder",
]
_LEFT_OUT = [
    "embedder/server",
    "jobs/*",
    "!jobs/__init__.py",
    "!jobs/release_check",
    "**/__pycache__",
    "**/*.pyc",
]
#: What decides on the artifact's bytes, besides the model.
_COMPILER = ["compiler-requirements.txt", "embedder", "model_compiler"]


class ArtifactInS3(Construct):
    """An artifact that a function downloads when it is initialized, published with its stack.

    The CDK's command compiles and uploads it, if it is not in the bucket yet. Its key is the hash
    of its sources, which give the same bytes each time: the bytes themselves, and a
    version of the object, are unknown until the stack is deployed.

    Args:
        model: The model.
        key_arn: The KMS key that encrypts the bucket; S3's own if None.

    Attributes:
        location: The object, as `s3://BUCKET/KEY`.

    Raises:
        ValueError: The stack publishes into bootstrap's bucket, from which `cdk gc` deletes
            artifacts that only older versions of the function use.
        FileNotFoundError: The model's folder does not exist.
    """

    def __init__(
        self, scope: Construct, id: str, *, model: ModelSettings, key_arn: str | None = None
    ) -> None:
        super().__init__(scope, id)
        self._key_arn = key_arn
        stack = Stack.of(self)
        recipe = _staged(self, "Recipe", _ZIP_FILES)
        compiler = _staged(self, "Compiler", _COMPILER)
        made_from = [
            compiler.asset_hash,
            files_digest([source.folder for source in model.sources if source.folder]),
            models_json(model.model_copy(update={"index": None})),
        ]
        published = _publish(
            recipe,
            model,
            made_from,
            options=["--artifact-object"],
            prefix=ARTIFACTS,
            shown="artifact of the model",
        )
        default = bootstrap_value(self, DefaultStackSynthesizer.DEFAULT_FILE_ASSETS_BUCKET_NAME)
        if _completed(stack, published.bucket_name) == _completed(stack, default):
            raise rule_error(
                "`cdk gc` deletes from the bootstrap bucket what only older versions download",
                found="a stack that publishes its files there",
                allowed="the bucket of an ArtifactBucket in another stack: "
                "DefaultStackSynthesizer(file_assets_bucket_name=...)",
            )
        self._bucket = published.bucket_name
        self.location = f"s3://{published.bucket_name}/{published.object_key}"

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Grant permission to read the artifacts of all versions and to use the bucket's key."""
        artifacts = f"arn:{Aws.PARTITION}:s3:::{self._bucket}/{ARTIFACTS}*"
        grant(grantee, ["s3:GetObject"], artifacts)
        name = _completed(Stack.of(self), self._bucket).replace("${", "<").replace("}", ">")
        wildcard = f"AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:s3:::{name}/{ARTIFACTS}*]"
        reason = "All versions have one role, and each reads an artifact of its own."
        acknowledge(self.node.scope or self, wildcard, reason=reason)
        if self._key_arn is not None:
            grant(grantee, READ_KEY, self._key_arn)


def zip_code(scope: Construct, model: ModelSettings, *, with_artifact: bool = True) -> lambda_.Code:
    """Return the code of a function; every use of the same model in a stack is the same zip.

    Without the artifact, it has the manifest and the checksums with which one from S3 is checked.
    """
    # The copy in the assembly is built, whatever changes before the deploy.
    recipe = _staged(scope, "Recipe", _ZIP_FILES)
    options = [] if with_artifact else ["--without-artifact"]
    made_from = [recipe.asset_hash, files_digest(model.files), models_json(model), *options]
    published = _publish(recipe, model, made_from, options=options, shown="zip of the function")
    bucket = s3.Bucket.from_bucket_name(scope, "Published", published.bucket_name)
    rule = "Annotation::@aws-cdk/aws-lambda:codeFromBucketObjectVersionNotSpecified"
    acknowledge(bucket, rule, reason="Another content has another key.")
    return lambda_.Code.from_bucket_v2(bucket, published.object_key)


def _completed(stack: Stack, name: str) -> str:
    """Return a bucket's name with what the stack knows of its place."""
    resolved = stack.resolve(name)
    text = str(resolved["Fn::Sub"]) if isinstance(resolved, dict) else str(resolved)
    for placeholder, value in (("AWS::AccountId", stack.account), ("AWS::Region", stack.region)):
        if not Token.is_unresolved(value):
            text = text.replace(f"${{{placeholder}}}", value)
    return text


def _staged(scope: Construct, id: str, names: list[str]) -> AssetStaging:
    """Copy a part of the image's folder into the assembly."""
    return AssetStaging(
        scope,
        id,
        source_path=str(image_folder()),
        exclude=["*", *(f"!{name}" for name in names), *_LEFT_OUT],
        ignore_mode=IgnoreMode.DOCKER,
    )


def _publish(
    recipe: AssetStaging,
    model: ModelSettings,
    made_from: list[str | None],
    *,
    options: list[str],
    prefix: str = "",
    shown: str,
) -> FileAssetLocation:
    """Have the CDK's command publish the file of the path that the builder prints."""
    stack = Stack.of(recipe)
    builder = Path(recipe.absolute_staged_path).resolve() / "build_zip.py"
    command = [sys.executable, str(builder), *options, *model_arguments(model)]
    name = prefix + hashlib.sha256(json.dumps(made_from).encode()).hexdigest()

    def add() -> FileAssetLocation:
        return stack.synthesizer.add_file_asset(
            source_hash=name, executable=command, display_name=shown
        )

    try:
        return add()
    except RuntimeError as error:
        if "must be bound" not in str(error):
            raise
    # The stack uses a bound copy of a synthesizer that Python created, and jsii returns the
    # original. They share the list of assets.
    stack.synthesizer.bind(stack)
    return add()
