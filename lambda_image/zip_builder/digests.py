"""Digests of what a part is made from, which name it in the cache."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

__all__ = ["digest_of", "source_files"]

_LENGTH = 20


def digest_of(*parts: str | Path | None) -> str:
    """Hash texts, and the names and contents of files and folders, wherever they are.

    Args:
        parts: Texts and paths, in order; None is hashed as nothing given.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            for file in source_files(part):
                name = file.relative_to(part) if part.is_dir() else file.name
                with file.open("rb") as content:
                    found = hashlib.file_digest(content, "sha256").hexdigest()
                digest.update(f"{name}\0{found}\n".encode())
        else:
            digest.update(f"{part!r}\n".encode())
        digest.update(b"\0")
    return digest.hexdigest()[:_LENGTH]


def source_files(path: Path) -> Iterable[Path]:
    """Return the files of a folder, sorted, without Python's byte code; a file is its own only."""
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file())
    return sorted(file for file in found if "__pycache__" not in file.parts)
