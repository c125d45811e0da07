"""The function's files: where each is in `/var/task`, and where it is on this machine."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from zip_builder.cache import kept
from zip_builder.digests import NOT_RUN, digest_of
from zip_builder.errors import ZipError
from zip_builder.target_python import find_python
from zip_builder.wheels import download_wheels, requirements_without, unpack_wheel

__all__ = ["LIMIT_BYTES", "Tree", "build_code", "build_dependencies"]

#: The most that Lambda unpacks, layers included: 250 MB of 1,024².
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
LIMIT_BYTES = 262_144_000
#: The packages of the code, without the jobs that only the batch image runs.
_CODE = ("embedder", "jobs")
_LEFT_OUT = shutil.ignore_patterns(*NOT_RUN, "embed", "ingest")
#: Where `finish_layer.py` expects a layer's files.
_PLACE = Path("var", "task")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a function.

    Attributes:
        parts: Folders of this machine by the part's name; each is a part of `/var/task`, or the
            folder of that name in it for `artifact` and `index`.
    """

    parts: Mapping[str, Path]

    def files(self) -> dict[PurePosixPath, Path]:
        """Return the file of each path below `/var/task`, sorted by path."""
        found = {}
        for name, folder in self.parts.items():
            below = PurePosixPath(name) if name in {"artifact", "index"} else PurePosixPath()
            for file in folder.rglob("*"):
                if file.is_file():
                    found[below / file.relative_to(folder).as_posix()] = file
        return dict(sorted(found.items()))

    def sizes(self) -> dict[str, int]:
        """Return the unpacked bytes of each part."""
        return {
            name: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            for name, folder in self.parts.items()
        }

    def check_size(self) -> None:
        """Refuse a tree that Lambda would not unpack.

        Raises:
            ZipError: It is too large; the message has the size of each part.
        """
        sizes = self.sizes()
        total = sum(sizes.values())
        if total > LIMIT_BYTES:
            listed = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())
            raise ZipError(
                f"Lambda unpacks a zip of up to {LIMIT_BYTES / 1e6:.1f} MB; "
                f"found: {total / 1e6:.1f} MB ({listed}); allowed: a smaller model, "
                'precision = "int8", or under [function] artifact = "s3" or package = "image"'
            )


def build_dependencies(*, recipe: Path, cache: Path, machine: str, with_tokenizers: bool) -> Path:
    """Return the folder of the packages that the code imports, with byte code.

    Args:
        recipe: The folder with requirements.txt.
        cache: The folder of built parts.
        machine: `aarch64` or `x86_64`.
        with_tokenizers: Whether the model needs the library `tokenizers`.

    Raises:
        ZipError: The packages cannot be downloaded, or there is no Python for the byte code.
    """
    listed = (recipe / "requirements.txt").read_text(encoding="utf-8")
    requirements = requirements_without(listed, [] if with_tokenizers else ["tokenizers"])
    wheels = kept(
        cache,
        f"wheels/{digest_of(requirements, machine)}",
        lambda folder: download_wheels(requirements, machine=machine, folder=folder),
    )

    def build(layer: Path) -> None:
        for wheel in sorted(wheels.glob("*.whl")):
            unpack_wheel(wheel, layer / _PLACE)
        _finish(layer, recipe, "--remove-listed", str(recipe / "unused-files.txt"))

    made_by = [recipe / "unused-files.txt", recipe / "finish_layer.py"]
    name = digest_of(requirements, machine, *made_by)
    return kept(cache, f"dependencies/{name}", build) / _PLACE


def build_code(folder: Path, *, recipe: Path) -> Path:
    """Copy the code into a folder, with byte code, and return the part of `/var/task`.

    Raises:
        ZipError: There is no Python for the byte code.
    """
    for package in _CODE:
        shutil.copytree(recipe / package, folder / _PLACE / package, ignore=_LEFT_OUT)
    _finish(folder, recipe)
    return folder / _PLACE


def _finish(layer: Path, recipe: Path, *arguments: str) -> None:
    command = [find_python(), "-I", str(recipe / "finish_layer.py"), str(layer), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise ZipError(f"finish_layer.py failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")
