"""The image's recipe: the Docker context, and the model as build arguments."""

import hashlib
from pathlib import Path

from aws_cdk import aws_ecr_assets as assets
from aws_cdk import aws_lambda as lambda_

from embedding_kit.settings import Model

__all__ = ["image_code", "image_folder"]


def image_folder() -> Path:
    """Find the Docker context: inside the installed package, else in the repository around it.

    Raises:
        FileNotFoundError: It is in neither place.
    """
    package = Path(__file__).parent
    places = (package / "lambda_image", package.parents[1] / "lambda_image")
    for place in places:
        if (place / "Dockerfile").is_file():
            return place
    looked = " and ".join(str(place) for place in places)
    raise FileNotFoundError(f"the image's Dockerfile is missing; looked in {looked}")


def image_code(model: Model, *, command: list[str] | None = None) -> lambda_.DockerImageCode:
    """Describe the image that serves a model; every use of the same model is one image.

    Args:
        model: What is compiled into the image.
        command: Another handler of the same image; the embedder's own if None.
    """
    token = model.hub_token_variable
    index = model.index
    return lambda_.DockerImageCode.from_image_asset(
        str(image_folder()),
        cmd=command,
        platform=assets.Platform.LINUX_ARM64,
        build_args={
            "MODEL": model.name,
            "PRECISION": model.precision,
            "ACCEPT_LICENCE": "yes" if model.accept_licence else "no",
        },
        # The shell's variable is read when the image is built, not now: synth knows its name only.
        build_secrets={"hub_token": f"env={token}"} if token else None,
        # BuildKit puts a named context in the place of the Dockerfile's empty stage of that name.
        build_contexts={"texts": str(index.parent)} if index else None,
        extra_hash=hashlib.sha256(index.read_bytes()).hexdigest() if index else None,
    )
