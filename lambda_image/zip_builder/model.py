"""The models' artifacts and the index made with them, compiled on this machine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zip_builder import ZipError
from zip_builder.cache import cached, code_digest, digest_of

#: What decides the artifact's bytes besides the model: the programs that write it.
_SOURCES = ("model_compiler", "embedder")
#: The status of the compiler after an error that it has explained.
_REFUSED = 2
_TEXTS = "texts"


@dataclass(frozen=True, slots=True)
class Models:
    """The content of models.json with absolute paths, and the variable of the hub's token."""

    content: Mapping[str, Any]
    hub_token_variable: str | None = None

    @property
    def name(self) -> str:
        """The name of the first model."""
        return str(self.content["model"]["name"])

    def without_texts(self) -> "Models":
        """Return the same models without the texts of an index."""
        content = {key: value for key, value in self.content.items() if key != _TEXTS}
        return Models(content, self.hub_token_variable)


def build_models(models: Models, *, recipe: Path, cache: Path) -> Path:
    """Return the folder of what a function loads: `artifact`, and `index` if there are texts."""
    artifacts = {
        key: _build_artifact(key, models, recipe=recipe, cache=cache)
        for key in models.content
        if key != _TEXTS
    }

    def put_together(folder: Path) -> None:
        links = folder.with_name("artifacts")
        links.mkdir()
        for key, artifact in artifacts.items():
            (links / key).symlink_to(artifact, target_is_directory=True)
        _compile(models, "--output", str(folder), folder=folder.parent, recipe=recipe)

    names = [f"{key} {artifact.name}" for key, artifact in artifacts.items()]
    texts = models.content.get(_TEXTS)
    return cached(cache, f"models/{digest_of(*names, texts and Path(texts))}", put_together)


def _build_artifact(key: str, models: Models, *, recipe: Path, cache: Path) -> Path:
    """Return the folder of a compiled model; compile it unless it is in the cache."""
    entry = models.content[key]
    options = {option: value for option, value in entry.items() if option != "folder"}
    own = entry.get("folder")
    # The compiler writes other bytes only with other libraries, which its versions decide.
    pins = recipe / "compiler-requirements.txt"
    code = code_digest(*(recipe / name for name in _SOURCES))
    digest = digest_of(json.dumps(options, sort_keys=True), own and Path(own), pins, code)

    def compile_to(folder: Path) -> None:
        model = Models({key: entry}, models.hub_token_variable)
        _compile(model, folder=folder.parent, recipe=recipe)
        (folder.with_name("artifacts") / key).rename(folder)

    return cached(cache, f"artifacts/{digest}", compile_to)


def build_object(artifact: Path, *, cache: Path) -> Path:
    """Return the artifacts as one file for S3, as `embedder.core.artifact_download` reads it.

    It has each artifact's files one after the other, sorted by name, without the manifest.
    """

    def pack(file: Path) -> None:
        with file.open("wb") as out:
            for manifest in manifests_in(artifact):
                for name in sorted(_read(manifest)["files"]):
                    with manifest.with_name(name).open("rb") as content:
                        shutil.copyfileobj(content, out)

    return cached(cache, f"objects/{digest_of(*manifests_in(artifact))}", pack)


def needs_tokenizers(artifact: Path) -> bool:
    """Return whether a start needs the library `tokenizers`, because a model has no tables."""
    tokenizers = [_read(manifest)["tokenizer"]["kind"] for manifest in manifests_in(artifact)]
    return "tokenizers" in tokenizers


def manifests_in(artifact: Path) -> list[Path]:
    """Return the manifests in a folder of one artifact, or of one for each task."""
    return sorted(artifact.rglob("manifest.json"))


def _read(manifest: Path) -> Any:
    return json.loads(manifest.read_text(encoding="utf-8"))


def _compile(models: Models, *words: str, folder: Path, recipe: Path) -> None:
    """Compile what `artifacts` in a folder lacks, as the image's build does."""
    (folder / "models.json").write_text(json.dumps(models.content), encoding="utf-8")
    command = ["model_compiler", "build", "models.json", "--artifacts", "artifacts", *words]
    if not sys.stderr.isatty():
        command.append("--quiet")
    variables = {"PYTHONPATH": str(recipe)}
    if models.hub_token_variable and os.environ.get(models.hub_token_variable):
        variables["HF_TOKEN"] = os.environ[models.hub_token_variable]
    done = subprocess.run(  # noqa: S603 - the recipe's own compiler, not one that is installed
        [sys.executable, "-m", *command],
        cwd=folder,
        env=os.environ | variables,
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode:
        # With this status it has printed one line with the reason, and not a traceback.
        explained = done.returncode == _REFUSED
        advice = "" if explained else "; if a module is missing, install embedding-kit[zip]"
        names = ", ".join(model["name"] for key, model in models.content.items() if key != _TEXTS)
        raise ZipError(f"model_compiler failed for {names}; its output is above{advice}")
