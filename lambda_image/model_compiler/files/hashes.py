"""SHA-256 of files, and the check of files against known hashes."""

import errno
import hashlib
from collections.abc import Mapping
from pathlib import Path


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
