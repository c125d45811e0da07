"""The commands that build the zip of a model, and its artifact for S3."""

import sys

from embedding_kit.image_identity import source_choices
from embedding_kit.programs import image_folder
from embedding_kit.settings import Model


def build_command(model: Model, *options: str) -> list[str]:
    """Return the command that builds the zip of a model from this source, and prints its path.

    With `--without-artifact` the zip has none; with `--artifact-object` the artifact for S3 is
    compiled instead.
    """
    script = str(image_folder() / "build_zip.py")
    return [sys.executable, script, *options, *model_arguments(model)]


def model_arguments(model: Model) -> list[str]:
    """Return the builder's arguments for a model."""
    command = model_choices(model)
    for table, source in {"": model, **model.companions}.items():
        if source.folder:
            option = f"--{table}-folder" if table else "--folder"
            command += [option, str(source.folder.resolve())]
    if model.index:
        command += ["--texts", str(model.index.resolve())]
    # Only the variable's name: its value is read when the zip is built.
    if model.hub_token_variable:
        command += ["--hub-token-variable", model.hub_token_variable]
    return command


def model_choices(model: Model) -> list[str]:
    """Return the arguments that change the zip and name no path of this machine."""
    words = [model.name, *source_choices(model)]
    if model.dimensions:
        words += ["--dimensions", ",".join(map(str, model.dimensions))]
    if model.route:
        words += ["--route", model.route]
    for table, source in model.companions.items():
        words += [f"--{table}", source.name]
        words += [word.replace("--", f"--{table}-", 1) for word in source_choices(source)]
    return words
