"""The commands that build the zip of a model, and its artifact for S3."""

import sys

from embedding_kit.programs import image_folder
from embedding_kit.settings import Model


def build_command(model: Model, *, with_artifact: bool = True) -> list[str]:
    """Return the command that builds the zip of a model from this source, and prints its path.

    Args:
        model: The model.
        with_artifact: Whether the zip has the artifact.
    """
    options = [] if with_artifact else ["--without-artifact"]
    script = str(image_folder() / "build_zip.py")
    return [sys.executable, script, *options, *model_arguments(model)]


def artifact_command(model: Model) -> list[str]:
    """Return the command that compiles the artifact for S3 from this source, and prints its path.

    Args:
        model: The model.
    """
    script = str(image_folder() / "build_zip.py")
    return [sys.executable, script, "--artifact-object", *model_arguments(model)]


def model_arguments(model: Model) -> list[str]:
    """Return the builder's arguments for a model."""
    command = model_choices(model)
    if model.folder:
        command += ["--folder", str(model.folder.resolve())]
    if model.index:
        command += ["--texts", str(model.index.resolve())]
    # Only the variable's name: its value is read when the zip is built.
    if model.hub_token_variable:
        command += ["--hub-token-variable", model.hub_token_variable]
    return command


def model_choices(model: Model) -> list[str]:
    """Return the arguments that change the zip and name no path of this machine."""
    options = {
        "--revision": model.revision,
        "--precision": model.precision,
        "--accept-license": model.accept_license,
        "--dimensions": ",".join(map(str, model.dimensions)),
        "--route": model.route,
    }
    return [
        model.name,
        *(word for name, value in options.items() if value for word in (name, value)),
    ]
