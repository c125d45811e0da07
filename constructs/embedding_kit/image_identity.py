"""models.json for the builders, and the identity of an image, a zip and an index.

No module of the CDK is imported here: the commands that compare an image with an environment's
settings need none.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedding_kit.programs import image_folder
from embedding_kit.settings import ModelSettings, VectorIndexSettings, index_dimension
from embedding_kit.settings.index import TEXT_KEY
from embedding_kit.settings.model import COMPANIONS, s3_place

#: The prefix of the labels that the Dockerfile sets.
LABEL = "embedding-kit."
#: Before the target of an image of the second model, where images are named by their targets.
STANDBY = "standby-"
#: The label, and the build argument, of each part of what an image is built from.
_MODELS, _FILES, _BASE_IMAGE = "models", "files", "base_image"
#: Choices that no vector depends on; the files of a folder have a label of their own.
_NOT_COMPARED = {"accept_license", "folder"}
#: Hexadecimal digits that distinguish the indexes of one stack.
_DIGITS = 8


def models_json(model: ModelSettings, *, here: bool = False) -> str:
    """Return the file from which the compiler makes all that a function serves.

    Paths are those of the image's build, or of this machine, if the build is `here`.
    """
    models: dict[str, Any] = {}
    for table, source in model.tables.items():
        models[table] = source.choices
        if source.folder:
            path = str(source.folder.resolve()) if here else f"sources/{table}"
            models[table]["folder"] = path
    if model.bm25:
        models["sparse"] = {"kind": "bm25"}
    if model.index:
        path = str(model.index.resolve()) if here else f"sources/texts/{model.index.name}"
        models["texts"] = path
        if model.route == "query":
            models["documents"] = models["model"] | {"route": "document"}
    return json.dumps(models)


def build_arguments(model: ModelSettings) -> dict[str, str]:
    """Return the Dockerfile's arguments for a model."""
    arguments = {
        _MODELS: models_json(model),
        _FILES: files_digest(model.files),
        _BASE_IMAGE: model.base_image,
    }
    return {name.upper(): value for name, value in arguments.items() if value}


def model_labels(model: ModelSettings) -> dict[str, str]:
    """Return the labels of an image or a zip of these settings, without that of the target."""
    return {f"{LABEL}{name.lower()}": value for name, value in build_arguments(model).items()}


def compare_labels(
    labels: Mapping[str, str], model: ModelSettings, table: str = "model"
) -> list[str]:
    """Return how a built image differs from the settings, one difference a line.

    A base image that the settings do not pin is not compared: any is allowed. `table` has the
    settings in the environment's file.
    """
    built, expected = _compared(labels), _compared(model_labels(model))
    if not model.base_image:
        built.pop(_BASE_IMAGE, None)
    return [
        f"[{table}] {setting}: found: {built.get(setting, 'not set')}; "
        f"allowed: {expected.get(setting, 'not set')}"
        for setting in expected | built
        if built.get(setting) != expected.get(setting)
    ]


def _compared(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what decides the model and its vectors, by the settings of an environment's file."""
    models = json.loads(labels.get(f"{LABEL}{_MODELS}", "{}"))
    compared = {
        setting: ",".join(map(str, value)) if isinstance(value, list) else value
        for setting, value in models.get("model", {}).items()
        if setting not in _NOT_COMPARED
    }
    compared["the files of folder and index"] = labels.get(f"{LABEL}{_FILES}")
    for table in COMPANIONS:
        choices = models.get(table, {})
        words = [choices.get("name")]
        words += [
            f"--{name} {choices[name]}" for name in choices if name not in {"name", *_NOT_COMPARED}
        ]
        compared[f"and [{table}]"] = " ".join(filter(None, words))
    compared[_BASE_IMAGE] = labels.get(f"{LABEL}{_BASE_IMAGE}")
    return {setting: value for setting, value in compared.items() if value}


def model_identity(model: ModelSettings) -> list[str | None]:
    """Return what changes if the settings select a model with other vectors.

    The routes of a Router have one vector space.
    """
    folder = files_digest([model.folder]) if model.folder else None
    return [model.name, model.revision, model.precision, folder]


def index_id(model: ModelSettings, settings: VectorIndexSettings, *, key_arn: str | None) -> str:
    """Return the id of a model's index: another one for each set of what CloudFormation replaces.

    With one id for all, CloudFormation would replace the index without a change of what refers to
    it, and a function would keep the earlier one's ARN.

    Raises:
        ValueError: The model has no vectors of that dimension, or its dimension is unknown.
    """
    keys = [TEXT_KEY, *settings.non_filterable]
    properties = [model_identity(model), index_dimension(model), keys, key_arn]
    if settings.text_search:
        properties.append(settings.text_search)
    return f"Index{hashlib.sha256(json.dumps(properties).encode()).hexdigest()[:_DIGITS]}"


def files_digest(paths: list[Path]) -> str | None:
    """Hash the names and contents of the files at some paths; return None without files.

    Raises:
        FileNotFoundError: A model's folder or its file of texts does not exist.
    """
    if not paths:
        return None
    digest = hashlib.sha256()
    for path in paths:
        if not path.exists():
            remedy = "; `scripts/deploy` and `scripts/build` download it" if s3_place(path) else ""
            raise FileNotFoundError(
                f"{path}, which the model's settings name, is not there{remedy}"
            )
        files = (
            sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        )
        for file in files:
            name = file.relative_to(path) if path.is_dir() else file.name
            with file.open("rb") as content:
                digest.update(
                    f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode()
                )
    return digest.hexdigest()


def build_command(model: ModelSettings, *options: str) -> list[str]:
    """Return the command that builds the zip of a model from this source, and prints its path.

    With `--without-artifact` the zip has none; with `--artifact-object` the artifact for S3 is
    compiled instead.
    """
    script = str(image_folder() / "build_zip.py")
    return [sys.executable, script, *options, *model_arguments(model)]


def model_arguments(model: ModelSettings) -> list[str]:
    """Return the builder's arguments for a model."""
    arguments = [models_json(model, here=True)]
    # Only the variable's name: its value is read when the zip is built.
    if model.hub_token_variable:
        arguments += ["--hub-token-variable", model.hub_token_variable]
    return arguments
