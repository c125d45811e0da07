"""The packages of requirements.txt, as wheels for another machine, with their hashes checked."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from zip_builder.errors import ZipError
from zip_builder.target_python import VERSION

__all__ = ["download_wheels", "requirements_without", "unpack_wheel"]

#: Lambda's Amazon Linux 2023 has glibc 2.34. pip takes only what is named, not what is older.
_PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
_REQUIREMENT = re.compile(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", re.MULTILINE | re.DOTALL)
#: The folders in a wheel's `.data` that belong to the import path; others are scripts and headers.
#: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
_IMPORTED = ("purelib", "platlib")


def requirements_without(text: str, left_out: Iterable[str]) -> str:
    """Return a requirements file without some packages."""
    blocks: list[str] = _REQUIREMENT.findall(text)
    return "".join(block for block in blocks if block.partition("==")[0] not in {*left_out})


def download_wheels(requirements: str, *, machine: str, folder: Path) -> None:
    """Download wheels with pip, from the index that it is configured for.

    Args:
        requirements: Pinned packages with their hashes, as a requirements file.
        machine: `aarch64` or `x86_64`.
        folder: The folder to create.

    Raises:
        ZipError: pip failed; the message has its last lines.
    """
    folder.mkdir()
    listed = folder.with_name("requirements.txt")
    listed.write_text(requirements, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder)]
    command += ["--implementation", "cp", "--python-version", ".".join(map(str, VERSION))]
    for platform in _PLATFORMS:
        command += ["--platform", f"{platform}_{machine}"]
    done = subprocess.run(  # noqa: S603 - pip, with arguments of ours
        [*command, "--requirement", str(listed)],
        stdout=sys.stderr,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise ZipError(f"the packages of requirements.txt could not be downloaded:\n{last}")


def unpack_wheel(wheel: Path, folder: Path) -> None:
    """Unpack what a wheel puts on the import path, without its scripts and headers."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = PurePosixPath(name).parts
            if parts[0].endswith(".data"):
                if len(parts) < 3 or parts[1] not in _IMPORTED:
                    continue
                parts = parts[2:]
            if name.endswith("/"):
                continue
            place = folder.joinpath(*parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(archive.read(name))
