"""The files of a folder by their paths in it: listed, linked into another folder, and hashed."""

import atexit
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


def files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their paths in it, with slashes."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


def linked_folder(files: Mapping[str, Path]) -> Path:
    """Return a new folder of links to files, by their paths in it; it is removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="embedding-kit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.realpath(file))
    return folder


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal; raises an OSError for another."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_files(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Compare the SHA-256 of each file with the expected one; return a message per mismatch."""
    mismatches = []
    for name, expected in files.items():
        try:
            actual = file_sha256(folder / name)
        except OSError as error:
            mismatches.append(f"{name} cannot be read: {error.strerror}")
            continue
        if actual != expected:
            mismatches.append(f"{name} has sha256 {actual}; {expected} was expected")
    return mismatches
