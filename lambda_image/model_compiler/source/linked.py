"""Folders of links: parts of several models' folders, read as one."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


def files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their paths in it, with slashes."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in found}


def linked_folder(files: Mapping[str, Path]) -> Path:
    """Return a new folder of links to files, by their paths in it; it is removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="embedding-kit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.realpath(file))
    return folder
