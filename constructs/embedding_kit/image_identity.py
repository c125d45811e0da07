"""A model as its builders are told it: the identity of an image, a zip and an index.

No module of the CDK is imported here: the commands that compare an image with an environment's
settings need none.
"""

import hashlib
import json
import sys
from pathlib import Path

from embedding_kit.programs import image_folder
from embedding_kit.settings import Model, ModelSource, VectorIndexSettings, index_dimension
from embedding_kit.settings.index import TEXT_KEY
from embedding_kit.settings.model import s3_place

#: The prefix of the labels that the Dockerfile sets.
LABEL = "embedding-kit."
#: Before the target of an image of the second model, where images are named by their targets.
STANDBY = "standby-"
#: The build arguments that decide the model and its vectors, and the setting of each.
_COMPARED = {
    "MODEL": "name",
    "REVISION": "revision",
    "PRECISION": "precision",
    "DIMENSIONS": "dimensions",
    "ROUTE": "route",
    "FILES": "the files of folder and index",
    "RERANKER": "and [reranker]",
    "SPARSE": "and [sparse]",
}
_BASE_IMAGE = "BASE_IMAGE"
#: Hexadecimal digits that tell the indexes of one stack apart.
_DIGITS = 8


def build_arguments(model: Model) -> dict[str, str]:
    """Return the Dockerfile's arguments for a model."""
    arguments = {
        "MODEL": model.name,
        "REVISION": model.revision,
        "PRECISION": model.precision,
        "ACCEPT_LICENSE": model.accept_license,
        "DIMENSIONS": ",".join(map(str, model.dimensions)),
        "ROUTE": model.route,
        _BASE_IMAGE: model.base_image,
        "TEXTS": model.index.name if model.index else None,
        "FILES": files_digest(model.files),
    }
    for table, source in model.companions.items():
        arguments[table.upper()] = " ".join([source.name, *source_choices(source)])
        arguments["MODELS"] = "models-together"
    return {name: value for name, value in arguments.items() if value}


def source_choices(source: ModelSource) -> list[str]:
    """Return the compiler's arguments that every model may have."""
    options = {
        "--revision": source.revision,
        "--precision": source.precision,
        "--accept-license": source.accept_license,
    }
    return [word for name, value in options.items() if value for word in (name, value)]


def model_labels(model: Model) -> dict[str, str]:
    """Return the labels of what is built from the settings, without that of the target."""
    arguments = build_arguments(model)
    names = [*_COMPARED, _BASE_IMAGE]
    return {f"{LABEL}{name.lower()}": arguments[name] for name in names if name in arguments}


def compare_labels(labels: dict[str, str], model: Model, table: str = "model") -> list[str]:
    """Return how a built image differs from the settings, one difference a line.

    A base image that the settings do not pin is not compared: any is allowed. `table` has the
    settings in the environment's file.
    """
    wanted = build_arguments(model)
    compared = dict(_COMPARED)
    if model.base_image:
        compared[_BASE_IMAGE] = "base_image"
    differences = []
    for argument, setting in compared.items():
        found = labels.get(f"{LABEL}{argument.lower()}", "")
        allowed = wanted.get(argument, "")
        if found != allowed:
            differences.append(
                f"[{table}] {setting}: found: {found or 'not set'}; allowed: {allowed or 'not set'}"
            )
    return differences


def model_identity(model: Model) -> list[str | None]:
    """Return what changes if the settings select a model with other vectors.

    The routes of a Router have one vector space.
    """
    folder = files_digest([model.folder]) if model.folder else None
    return [model.name, model.revision, model.precision, folder]


def index_id(model: Model, settings: VectorIndexSettings, *, key_arn: str | None) -> str:
    """Return the id of a model's index: another one for each set of what AWS cannot change.

    With one id for all, CloudFormation would replace the index without a change of what refers to
    it, and a function would keep the earlier one's ARN.

    Raises:
        ValueError: The model has no vectors of that dimension, or its dimension is unknown.
    """
    keys = [TEXT_KEY, *settings.non_filterable]
    properties = [model_identity(model), index_dimension(model), keys, key_arn]
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
