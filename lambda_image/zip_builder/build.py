"""Builds the zip of a function from its parts."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zip_builder.archive import write_zip
from zip_builder.cache import clean, kept
from zip_builder.digests import code_digest, digest_of
from zip_builder.model import (
    ModelChoice,
    build_artifact,
    build_index,
    build_object,
    needs_tokenizers,
)
from zip_builder.tree import Tree, build_code, build_dependencies

__all__ = ["build_artifact_object", "build_zip"]


def build_zip(
    choice: ModelChoice,
    *,
    recipe: Path,
    cache: Path,
    machine: str = "aarch64",
    with_artifact: bool = True,
) -> Path:
    """Return the zip of a function; build it unless it is in the cache.

    Args:
        choice: The model.
        recipe: The folder with the code, the compiler and requirements.txt.
        cache: The folder of built parts.
        machine: The processor that runs it: Lambda's `aarch64`, or `x86_64` to try it here.
        with_artifact: Whether the artifact is in the zip, or in S3.

    Raises:
        ZipError: A part cannot be built, or Lambda would not unpack the zip.
    """
    cache.mkdir(parents=True, exist_ok=True)
    clean(cache)
    with _step(f"compiling {choice.name}"):
        artifact = build_artifact(choice, recipe=recipe, cache=cache)
        index = build_index(choice, artifact, recipe=recipe, cache=cache)
    with _step(f"getting the packages for {machine}"):
        dependencies = build_dependencies(
            recipe=recipe, cache=cache, machine=machine, with_tokenizers=needs_tokenizers(artifact)
        )

    def build(archive: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            code = build_code(Path(name, "code"), recipe=recipe)
            shipped = artifact
            if not with_artifact:
                # The function compares what it downloads with the manifest.
                shipped = Path(name, "artifact")
                shipped.mkdir()
                shutil.copy(artifact / "manifest.json", shipped)
            parts = {"dependencies": dependencies, "artifact": shipped, "code": code}
            tree = Tree(parts | ({"index": index} if index else {}))
            tree.check_size()
            write_zip(tree.files(), archive)

    made_from = [recipe / name for name in ("embedder", "jobs", "zip_builder")]
    names = [part.name for part in (artifact, index, dependencies.parents[1]) if part]
    if not with_artifact:
        names.append("artifact in S3")
    with _step("writing the zip"):
        return kept(cache, f"zips/{digest_of(*names, code_digest(*made_from))}.zip", build)


def build_artifact_object(choice: ModelChoice, *, recipe: Path, cache: Path) -> Path:
    """Return the artifact as one file for S3; build it unless it is in the cache.

    Args:
        choice: The model.
        recipe: The folder with the compiler.
        cache: The folder of built parts.

    Raises:
        ZipError: The model cannot be compiled.
    """
    cache.mkdir(parents=True, exist_ok=True)
    clean(cache)
    with _step(f"compiling {choice.name} for S3"):
        artifact = build_artifact(choice, recipe=recipe, cache=cache)
        return build_object(artifact, recipe=recipe, cache=cache)


@contextmanager
def _step(text: str) -> Iterator[None]:
    """Print a step and its duration."""
    began = time.monotonic()
    print(f"zip: {text} ...", file=sys.stderr, flush=True)
    yield
    print(f"zip: {text}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
