"""Packages of Debian and npm at a version, with the hash of their file.

apt and npm download a package. Where Debian has a newer version only, the version and the hash must
be renewed where the package is named.
"""

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class PinnedPackage(NamedTuple):
    """A version of a package."""

    name: str
    version: str
    #: SHA-256 of the file that is downloaded, in hexadecimal.
    sha256: str
    #: `debian` or `npm`.
    registry: str = "debian"


def archive_of(package: PinnedPackage, cache: Path) -> bytes:
    """Return a package's files as a tar archive; its file stays in the cache."""
    file = downloaded(package, cache)
    if package.registry == "npm":
        return gzip.decompress(file.read_bytes())
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", file], capture_output=True, check=True)
    return done.stdout


def downloaded(package: PinnedPackage, cache: Path) -> Path:
    """Return a package's file in the cache: only a whole one is there.

    Raises:
        ValueError: If the file has another hash.
    """
    file = cache / f"{package.registry}-{package.name}-{package.sha256[:12]}"
    if file.exists():
        return file
    folder = file.with_suffix(".new")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if package.registry == "npm":
        command = [str(Path(sys.executable).parent / "npm"), "pack", "--silent"]
        command += [f"{package.name}@{package.version}"]
    else:
        command = ["apt-get", "--quiet", "download", f"{package.name}={package.version}"]
    trusted = os.environ | {"NODE_USE_SYSTEM_CA": "1"}
    subprocess.run(command, cwd=folder, env=trusted, stdout=sys.stderr, check=True)
    (whole,) = folder.iterdir()
    digest = hashlib.sha256(whole.read_bytes()).hexdigest()
    if digest != package.sha256:
        raise ValueError(f"{whole} must have the SHA-256 {package.sha256}; found {digest}.")
    whole.rename(file)
    folder.rmdir()
    return file
