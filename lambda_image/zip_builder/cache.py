"""The cache of built parts: each is complete, or is not there.

A digest of what a part is made from names it.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

#: A build that was killed leaves its folder; after this many seconds, the next one removes it.
_ABANDONED = 24 * 3600
_BUILDING = "building-"
#: A zip is built for each change of code. The newest are kept, for a deploy that is repeated, and
#: so is the newest artifact for S3, which the artifact itself is a copy of.
_NEWEST = {"zips": 3, "objects": 1}


def default_cache() -> Path:
    """Return the user's cache folder of this program (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "embedding-kit"


def cached(cache: Path, name: str, build: Callable[[Path], None]) -> Path:
    """Return a file or folder of the cache; build it if it is not there.

    Everything that the content depends on is in its name. `build` writes the content to the path
    that it gets. It is moved to its place when it is complete, so a build that fails or is killed
    leaves nothing there.
    """
    path = cache / name
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=cache) as building:
        unfinished = Path(building, "unfinished")
        build(unfinished)
        try:
            unfinished.rename(path)
        except OSError:
            # Another process has built the same meanwhile.
            if not path.exists():
                raise
    return path


def clean(cache: Path) -> None:
    """Remove old zips and objects, and what killed builds have left."""
    for folder in cache.glob(f"{_BUILDING}*"):
        if time.time() - folder.stat().st_mtime > _ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)
    for name, number in _NEWEST.items():
        files = sorted((cache / name).glob("*"), key=lambda file: file.stat().st_mtime)
        for file in files[:-number]:
            file.unlink(missing_ok=True)


_LENGTH = 20
_BYTE_CODE = ("__pycache__",)
#: Folders of the code that no function runs. A copy of the recipe may lack them.
NOT_RUN = (*_BYTE_CODE, "server")


def code_digest(*folders: Path) -> str:
    """Hash the code in folders as far as a function runs it."""
    return digest_of(*folders, left_out=NOT_RUN)


def digest_of(*sources: str | Path | None, left_out: Collection[str] = _BYTE_CODE) -> str:
    """Hash texts, and the names and contents of files and folders, wherever they are.

    Folders of a name in `left_out` are not read; None is hashed as nothing given.
    """
    digest = hashlib.sha256()
    for source in sources:
        if isinstance(source, Path):
            files = sorted(filter(Path.is_file, source.rglob("*"))) if source.is_dir() else [source]
            for file in files:
                name = file.relative_to(source) if source.is_dir() else Path(file.name)
                if not {*left_out} & {*name.parent.parts}:
                    with file.open("rb") as content:
                        content_digest = hashlib.file_digest(content, "sha256").hexdigest()
                    digest.update(f"{name}\0{content_digest}\n".encode())
        else:
            digest.update(f"{source!r}\n".encode())
        digest.update(b"\0")
    return digest.hexdigest()[:_LENGTH]
