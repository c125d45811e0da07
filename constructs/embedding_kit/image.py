"""The image's recipe: the Docker context, and the model as build arguments."""

from typing import Any, Literal

from aws_cdk import aws_ecr_assets as assets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.image_identity import build_arguments, files_digest
from embedding_kit.programs import image_folder
from embedding_kit.settings import Model, ModelSource
from embedding_kit.settings.compatibility import check_server

#: Files of one target only. Without them in its context, another image does not change with them.
_OWN_FILES = {
    "batch": [
        "batch-requirements.txt",
        "jobs/command.py",
        "jobs/embed",
        "jobs/errors.py",
        "jobs/ingest",
        "jobs/load",
        "jobs/steps.py",
        "jobs/storage.py",
        "jobs/watch",
    ],
    "server": ["embedder/server", "server-requirements.txt"],
}


def image_code(
    model: Model, *, command: list[str] | None = None, target: Literal["batch"] | None = None
) -> lambda_.DockerImageCode:
    """Return the image of a function; every use of the same model gives the same image.

    Without a `command` it runs the embedder, and without a `target` it is the Dockerfile's last
    stage, the endpoint's.
    """
    return lambda_.DockerImageCode.from_image_asset(
        str(image_folder()), cmd=command, **_recipe(model, target)
    )


def server_image(scope: Construct, id: str, model: Model) -> assets.DockerImageAsset:
    """Return the image of the server's tasks.

    Raises:
        ValueError: There are several models, and a server runs one.
    """
    check_server(model)
    recipe = _recipe(model, "server")
    return assets.DockerImageAsset(scope, id, directory=str(image_folder()), **recipe)


def _recipe(model: Model, target: str | None) -> dict[str, Any]:
    """Return how the image of a target is built; functions and tasks have the same properties."""
    token = model.hub_token_variable
    named: dict[str, ModelSource] = {"folder": model, **model.companions}
    contexts = {name: str(source.folder) for name, source in named.items() if source.folder}
    if model.index:
        contexts["texts"] = str(model.index.parent)
    return {
        "target": target,
        "exclude": [file for name, files in _OWN_FILES.items() if name != target for file in files],
        "platform": assets.Platform.LINUX_ARM64,
        "build_args": build_arguments(model),
        # The variable is read when the image is built; synth knows only its name.
        "build_secrets": {"hub_token": f"env={token}"} if token else None,
        # A named context replaces the Dockerfile's empty stage of that name in BuildKit.
        "build_contexts": contexts or None,
        # The CDK hashes the image's folder and the arguments, but not the named contexts. Their
        # paths on this machine must not change the image.
        "extra_hash": files_digest(model.files),
        "invalidation": assets.DockerImageAssetInvalidationOptions(build_contexts=False),
    }
