"""The zip's recipe: what it is made from, and the command that builds it for a deploy.

Synth builds nothing, as with an image: it names the zip by the digest of what it is made from, and
writes the command into the cloud assembly. The CDK's command runs it when it publishes the zip, and
only if the bootstrap bucket has none of that name. So synth needs no network, no compiler and no
model, takes no longer, and gives the same template on every machine.
"""

import hashlib
import json
import sys
from pathlib import Path

from aws_cdk import (
    Acknowledgment,
    AssetStaging,
    FileAssetLocation,
    IgnoreMode,
    Stack,
    Validations,
)
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from embedding_kit.image import files_digest, image_folder
from embedding_kit.settings import Model

__all__ = ["build_command", "zip_code"]

#: What the zip is built from; nothing else changes it.
_RECIPE = [
    "build_zip.py",
    "compiler-requirements.txt",
    "embedder",
    "finish_layer.py",
    "model_compiler",
    "release_check",
    "requirements.txt",
    "unused-files.txt",
    "zip_builder",
]
_LEFT_OUT = ["embedder/server", "**/__pycache__", "**/*.pyc"]


def zip_code(scope: Construct, model: Model) -> lambda_.Code:
    """Return the code of a function; every use of the same model in a stack is the same zip.

    Args:
        scope: The function's parent, which gets the construct of the recipe.
        model: The model that is compiled into the zip.

    Raises:
        FileNotFoundError: The model's folder or the file of texts does not exist.
    """
    # The copy in the assembly is what is built, whatever changes before the deploy.
    recipe = AssetStaging(
        scope,
        "Recipe",
        source_path=str(image_folder()),
        exclude=["*", *(f"!{name}" for name in _RECIPE), *_LEFT_OUT],
        ignore_mode=IgnoreMode.DOCKER,
    )
    made_from = [
        recipe.asset_hash,
        files_digest([path for path in (model.folder, model.index) if path]),
        *_choices(model),
    ]
    published = _publish(
        Stack.of(scope),
        name=hashlib.sha256(json.dumps(made_from).encode()).hexdigest(),
        command=build_command(model, Path(recipe.absolute_staged_path).resolve()),
    )
    bucket = s3.Bucket.from_bucket_name(scope, "Published", published.bucket_name)
    Validations.of(bucket).acknowledge(
        Acknowledgment(
            id="Annotation::@aws-cdk/aws-lambda:codeFromBucketObjectVersionNotSpecified",
            reason="Another content has another key.",
        )
    )
    return lambda_.Code.from_bucket_v2(bucket, published.object_key)


def build_command(model: Model, recipe: Path | None = None) -> list[str]:
    """Return the command that builds the zip of a model and prints its path.

    Args:
        model: The model.
        recipe: A copy of the recipe; the folder of this package if None.
    """
    command = [sys.executable, str((recipe or image_folder()) / "build_zip.py"), *_choices(model)]
    if model.folder:
        command += ["--folder", str(model.folder.resolve())]
    if model.index:
        command += ["--texts", str(model.index.resolve())]
    # Only the variable's name: its value is read when the zip is built.
    if model.hub_token_variable:
        command += ["--hub-token-variable", model.hub_token_variable]
    return command


def _publish(stack: Stack, *, name: str, command: list[str]) -> FileAssetLocation:
    """Have the CDK's command publish the file whose path another command prints."""

    def add() -> FileAssetLocation:
        return stack.synthesizer.add_file_asset(
            source_hash=name, executable=command, display_name="zip of the function"
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


def _choices(model: Model) -> list[str]:
    """Return the arguments that change the zip and name no path of this machine."""
    options = {
        "--revision": model.revision,
        "--precision": model.precision,
        "--accept-license": model.accept_license,
        "--dimensions": ",".join(map(str, model.dimensions)),
    }
    return [
        model.name,
        *(word for name, value in options.items() if value for word in (name, value)),
    ]
