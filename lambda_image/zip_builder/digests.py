"""Digests of what a part is made from, which name it in the cache."""

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

__all__ = ["NOT_RUN", "code_digest", "digest_of"]

_LENGTH = 20
_BYTE_CODE = ("__pycache__",)
#: Folders of the code that no function runs. A copy of the recipe may lack them.
NOT_RUN = (*_BYTE_CODE, "server")


def code_digest(*folders: Path) -> str:
    """Hash the code in folders as far as a function runs it."""
    return digest_of(*folders, left_out=NOT_RUN)


def digest_of(*parts: str | Path | None, left_out: Collection[str] = _BYTE_CODE) -> str:
    """Hash texts, and the names and contents of files and folders, wherever they are.

    Args:
        parts: Texts and paths, in order; None is hashed as nothing given.
        left_out: The names of folders to leave out.
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            for file in _files(part, left_out):
                name = file.relative_to(part) if part.is_dir() else file.name
                with file.open("rb") as content:
                    found = hashlib.file_digest(content, "sha256").hexdigest()
                digest.update(f"{name}\0{found}\n".encode())
        else:
            digest.update(f"{part!r}\n".encode())
        digest.update(b"\0")
    return digest.hexdigest()[:_LENGTH]


def _files(path: Path, left_out: Collection[str]) -> Iterable[Path]:
    """Return the files of a folder, sorted; a file is its own only one."""
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file())
    return sorted(
        file for file in found if not {*left_out} & {*file.relative_to(path).parent.parts}
    )
