"""The identity of an image: its build arguments, and the labels that a built image has of them.

No module of the CDK is imported here: the commands that compare an image with an environment's
settings need none.
"""

import hashlib
from pathlib import Path

from embedding_kit.settings import Model, ModelSource
from embedding_kit.settings.model_folder import s3_place

#: The prefix of the labels that the Dockerfile sets.
LABEL = "embedding-kit."
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


def build_arguments(model: Model) -> dict[str, str]:
    """Return the Dockerfile's arguments for a model.

    Raises:
        FileNotFoundError: The model's folder or the file of texts does not exist.
    """
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
    """Return the labels of what is built from the settings, without that of the target.

    Raises:
        FileNotFoundError: The model's folder or the file of texts does not exist.
    """
    arguments = build_arguments(model)
    names = [*_COMPARED, _BASE_IMAGE]
    return {f"{LABEL}{name.lower()}": arguments[name] for name in names if name in arguments}


def compare_labels(labels: dict[str, str], model: Model) -> list[str]:
    """Return how a built image differs from the settings, one difference a line.

    A base image that the settings do not pin is not compared: any is allowed.

    Args:
        labels: The labels of the built image.
        model: The settings of the environment that would deploy it.

    Raises:
        FileNotFoundError: The model's folder or the file of texts does not exist.
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
                f"[model] {setting}: found: {found or 'not set'}; allowed: {allowed or 'not set'}"
            )
    return differences


def files_digest(paths: list[Path]) -> str | None:
    """Hash the names and contents of the files at some paths; return None without files."""
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
