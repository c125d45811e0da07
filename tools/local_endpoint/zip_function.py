"""A function from a zip on this machine: the zip's tree and nothing else on the import path.

The zip is built as for a deploy, with the packages for this machine's processor. It runs in CPython
3.13 without this project's packages, with the client of Lambda's runtime next to it as in
`/var/runtime`. The tree is read-only, and Python writes no byte code.
"""

import platform
import zipfile
from pathlib import Path

from tools.local_endpoint.models import ROOT, ModelError
from tools.local_endpoint.runtime import Function
from zip_builder import ZipError
from zip_builder.build import build_zip
from zip_builder.cache import default_cache, digest_of, kept
from zip_builder.model import ModelChoice
from zip_builder.target_python import find_python
from zip_builder.tree import download_wheels, unpack_wheel

_RECIPE = ROOT / "lambda_image"
_RUNTIME = ROOT / "tools" / "local_endpoint" / "runtime-requirements.txt"
#: The processors of Lambda, by their names on Linux.
_MACHINES = ("aarch64", "x86_64")


def zip_function(
    model: str,
    *,
    accept_license: str | None = None,
    texts: str | None = None,
    memory: int = 1769,
    timeout: int = 60,
    cache: Path | None = None,
) -> Function:
    """Build the zip of a model, unpack it, and return the function that runs it.

    Args:
        model: A sentence-transformers folder, or a model of the catalog.
        accept_license: The name of a license that the user accepts.
        texts: The file with the texts of the search index.
        memory: The memory setting in MB.
        timeout: Seconds per request.
        cache: The builder's cache; the user's if None.

    Raises:
        ModelError: The zip cannot be built, or this machine has another processor than Lambda's.
    """
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in _MACHINES:
        found = f"{platform.system()} on {machine}"
        raise ModelError(f"a zip runs on Linux ({' or '.join(_MACHINES)}) only; found: {found}")
    folder = Path(model).expanduser()
    choice = ModelChoice(
        name=folder.resolve().name if folder.is_dir() else model,
        folder=folder.resolve() if folder.is_dir() else None,
        accept_license=accept_license,
        texts=Path(texts).expanduser().resolve() if texts else None,
    )
    cache = cache or default_cache()
    try:
        archive = build_zip(choice, recipe=_RECIPE, cache=cache, machine=machine)
        return Function(
            handler="embedder.aws_lambda.handler.handler",
            source_root=unpack_zip(archive, cache=cache),
            environment={"PYTHONDONTWRITEBYTECODE": "1"},
            memory=memory,
            timeout=timeout,
            python=find_python(),
            runtime_root=_runtime(machine, cache=cache),
        )
    except ZipError as error:
        raise ModelError(str(error)) from error


def unpack_zip(archive: Path, *, cache: Path) -> Path:
    """Return a read-only folder with the content of a zip, as Lambda has it in `/var/task`."""

    def unpack(folder: Path) -> None:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
        for path in folder.rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)

    return kept(cache, f"trees/{archive.stem}", unpack)


def _runtime(machine: str, *, cache: Path) -> Path:
    """Return a folder with the client of Lambda's runtime for its Python."""
    pins = _RUNTIME.read_text(encoding="utf-8")

    def install(folder: Path) -> None:
        wheels = folder.with_name("wheels")
        download_wheels(pins, machine=machine, folder=wheels)
        for wheel in wheels.glob("*.whl"):
            unpack_wheel(wheel, folder)

    return kept(cache, f"runtimes/{digest_of(pins, machine)}", install)
