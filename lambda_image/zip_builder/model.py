"""The model's artifact and the index made with it, compiled on this machine."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zip_builder import ZipError
from zip_builder.cache import code_digest, digest_of, kept

#: What decides the artifact's bytes besides the model: the programs that write it.
_SOURCES = ("model_compiler", "embedder")
#: The status of the compiler after an error that it has explained.
_REFUSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """What to compile, as the arguments of the image's build say it."""

    name: str
    revision: str | None = None
    precision: str | None = None
    accept_license: str | None = None
    #: Numbers with commas between them.
    dimensions: str | None = None
    route: str | None = None
    #: In place of the hub's.
    folder: Path | None = None
    #: Of the search index.
    texts: Path | None = None
    hub_token_variable: str | None = None
    #: Of other kinds that the same function serves, by task.
    companions: Mapping[str, "ModelChoice"] = field(default_factory=dict)

    def digest(self, recipe: Path) -> str:
        """Return the digest of what the artifact is made from."""
        # The compiler writes other bytes only with other libraries, which its versions decide.
        own = [self.name, self.revision, self.precision, self.dimensions, self.route, self.folder]
        pins = recipe / "compiler-requirements.txt"
        return digest_of(*own, pins, code_digest(*(recipe / name for name in _SOURCES)))


def build_artifacts(choice: ModelChoice, *, recipe: Path, cache: Path) -> Path:
    """Return the folder of what a function serves: one artifact, or one for each task."""
    if not choice.companions:
        return build_artifact(choice, recipe=recipe, cache=cache)
    choices = {"embed": choice, **choice.companions}
    built = {
        task: build_artifact(each, recipe=recipe, cache=cache) for task, each in choices.items()
    }

    def put_together(folder: Path) -> None:
        for task, artifact in built.items():
            shutil.copytree(artifact, folder / task, copy_function=os.link)
        command = ["model_compiler.artifact.together", str(folder)]
        _run(command, recipe=recipe, folder=folder.parent, variables={})

    names = [f"{task} {artifact.name}" for task, artifact in built.items()]
    return kept(cache, f"artifacts/{digest_of(*names)}", put_together)


def build_artifact(choice: ModelChoice, *, recipe: Path, cache: Path) -> Path:
    """Return the folder of the compiled model; compile it unless it is in the cache."""

    def compile_to(folder: Path) -> None:
        options = {
            "--accept-license": choice.accept_license,
            "--dimensions": choice.dimensions,
            "--revision": choice.revision,
            "--precision": choice.precision,
            "--route": choice.route,
        }
        words = [word for name, value in options.items() if value for word in (name, value)]
        if not sys.stderr.isatty():
            words.append("--quiet")
        variables = {}
        if choice.hub_token_variable and os.environ.get(choice.hub_token_variable):
            variables["HF_TOKEN"] = os.environ[choice.hub_token_variable]
        with tempfile.TemporaryDirectory() as name:
            if choice.folder:
                # The folder gets the model's name, which the manifest and the vector space have.
                link = Path(name, choice.name)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(choice.folder.resolve(), target_is_directory=True)
            command = ["model_compiler", choice.name, "--output", str(folder), *words]
            _run(command, recipe=recipe, folder=Path(name), variables=variables)
        if not (folder / "manifest.json").exists():
            raise ZipError(
                "a function serves one artifact; found: a Router, which has one for each route; "
                "allowed: route under [model], query or document"
            )

    return kept(cache, f"artifacts/{choice.digest(recipe)}", compile_to)


def build_index(choice: ModelChoice, artifact: Path, *, recipe: Path, cache: Path) -> Path | None:
    """Return the folder of the search index; None if the model has no texts to search."""
    texts = choice.texts
    if texts is None:
        return None

    def embed_to(folder: Path) -> None:
        module = "model_compiler.index_builder"
        made_with = artifact
        if choice.route == "query":
            # The texts are documents, of which the zip has no artifact.
            made_with = build_artifact(
                replace(choice, route="document"), recipe=recipe, cache=cache
            )
        command = [module, str(texts), "--artifact", str(made_with), "--output", str(folder)]
        _run(command, recipe=recipe, folder=folder.parent, variables={})

    # A reranker makes no part of an index.
    makers = [choice, *(each for task, each in choice.companions.items() if task == "sparse")]
    names = [maker.digest(recipe) for maker in makers]
    return kept(cache, f"indexes/{digest_of(*names, texts)}", embed_to)


def build_object(artifact: Path, *, cache: Path) -> Path:
    """Return the artifacts as one file for S3, as `embedder.core.artifact_download` reads it.

    It has each artifact's files one after the other, sorted by name, without the manifest.
    """

    def pack(file: Path) -> None:
        with file.open("wb") as out:
            for manifest in manifests_in(artifact):
                for name in sorted(_read(manifest)["files"]):
                    with manifest.with_name(name).open("rb") as part:
                        shutil.copyfileobj(part, out)

    return kept(cache, f"objects/{artifact.name}", pack)


def needs_tokenizers(artifact: Path) -> bool:
    """Return whether a start needs the library `tokenizers`, because a model has no tables."""
    kinds = [_read(manifest)["tokenizer"]["kind"] for manifest in manifests_in(artifact)]
    return "tokenizers" in kinds


def manifests_in(artifact: Path) -> list[Path]:
    """Return the manifests in a folder of one artifact, or of one for each task."""
    return sorted(artifact.rglob("manifest.json"))


def _read(manifest: Path) -> Any:
    return json.loads(manifest.read_text(encoding="utf-8"))


def _run(command: list[str], *, recipe: Path, folder: Path, variables: dict[str, str]) -> None:
    done = subprocess.run(  # noqa: S603 - the compiler, with arguments of the settings
        [sys.executable, "-m", *command],
        cwd=folder,
        # The recipe's own compiler, not one that is installed.
        env=os.environ | variables | {"PYTHONPATH": str(recipe)},
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode:
        # With this status it has printed one line with the reason, and not a traceback.
        known = done.returncode == _REFUSED
        advice = "" if known else "; if a module is missing, install embedding-kit[zip]"
        raise ZipError(f"{command[0]} failed for {command[1]}; its output is above{advice}")
