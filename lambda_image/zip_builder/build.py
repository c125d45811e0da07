"""Builds the zip of a function from its parts: the command line of `build_zip.py`."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from zip_builder import ZipError
from zip_builder.cache import cached, clean, code_digest, default_cache, digest_of
from zip_builder.model import Models, build_models, build_object, manifests_in, needs_tokenizers
from zip_builder.tree import build_code, build_dependencies, write_zip

_RECIPE = Path(__file__).resolve().parents[1]
#: Variables with the file of certificates that pip, or the hub's client, trusts: the first that is
#: set is given to both, as to the image's build.
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
#: The status of a program after Ctrl-C.
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the zip and print its path; return 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(
        prog="build_zip.py",
        description="Build the zip of a function for Lambda's Python, and print its path.",
    )
    parser.add_argument(
        "models",
        metavar="MODELS",
        type=json.loads,
        help='the content of models.json with absolute paths: {"model": {"name": "..."}}',
    )
    parser.add_argument("--hub-token-variable", metavar="NAME")
    parser.add_argument(
        "--machine", choices=["aarch64", "x86_64"], default="aarch64", help="default: %(default)s"
    )
    artifact_options = parser.add_mutually_exclusive_group()
    artifact_options.add_argument(
        "--without-artifact", action="store_true", help="a zip with its artifact in S3"
    )
    artifact_options.add_argument(
        "--artifact-object", action="store_true", help="that artifact for S3 in place of the zip"
    )
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    options = parser.parse_args(arguments)
    models = Models(options.models, options.hub_token_variable)
    if file := next((os.environ[name] for name in CERTIFICATES if os.environ.get(name)), None):
        # The programs below inherit it; pip's own variable alone fails with some versions of pip.
        os.environ["SSL_CERT_FILE"] = file
    try:
        cache = options.cache.resolve()
        if options.artifact_object:
            built = build_artifact_object(models, recipe=_RECIPE, cache=cache)
        else:
            built = build_zip(
                models,
                recipe=_RECIPE,
                cache=cache,
                machine=options.machine,
                with_artifact=not options.without_artifact,
            )
    except (OSError, ZipError) as error:
        # Such as a full disk; the unfinished part has been removed.
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; the same command continues", file=sys.stderr)
        return _INTERRUPTED
    print(built)
    return 0


def build_zip(
    models: Models,
    *,
    recipe: Path,
    cache: Path,
    machine: str = "aarch64",
    with_artifact: bool = True,
) -> Path:
    """Return the zip of a function for a processor; build it unless it is in the cache.

    The recipe is the folder with the code, the compiler and requirements.txt. Lambda's processor is
    `aarch64`; on `x86_64` the zip can be tried here. The artifact is in the zip, or in S3.
    """
    cache.mkdir(parents=True, exist_ok=True)
    clean(cache)
    with _step(f"compiling {models.name}"):
        compiled = build_models(models, recipe=recipe, cache=cache)
    artifact, index = compiled / "artifact", compiled / "index"
    with _step(f"getting the packages for {machine}"):
        dependencies = build_dependencies(
            recipe=recipe, cache=cache, machine=machine, with_tokenizers=needs_tokenizers(artifact)
        )

    def build(archive: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            code = build_code(Path(name, "code"), recipe=recipe, machine=machine)
            shipped = artifact
            if not with_artifact:
                # The function compares what it downloads with the manifest.
                shipped = Path(name, "artifact")
                shipped.mkdir()
                for file in [*manifests_in(artifact), *artifact.glob("artifacts.json")]:
                    copy = shipped / file.relative_to(artifact)
                    copy.parent.mkdir(exist_ok=True)
                    shutil.copy(file, copy)
            contents = {"dependencies": dependencies, "artifact": shipped, "code": code}
            write_zip(contents | ({"index": index} if index.is_dir() else {}), archive)

    made_from = [recipe / name for name in ("embedder", "jobs", "zip_builder")]
    names = [compiled.name, dependencies.parents[1].name]
    if not with_artifact:
        names.append("artifact in S3")
    with _step("writing the zip"):
        return cached(cache, f"zips/{digest_of(*names, code_digest(*made_from))}.zip", build)


def build_artifact_object(models: Models, *, recipe: Path, cache: Path) -> Path:
    """Return the artifact as one file for S3; build it unless it is in the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    clean(cache)
    with _step(f"compiling {models.name} for S3"):
        compiled = build_models(models.without_texts(), recipe=recipe, cache=cache)
        return build_object(compiled / "artifact", cache=cache)


@contextmanager
def _step(text: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"zip: {text} ...", file=sys.stderr, flush=True)
    yield
    print(f"zip: {text}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
