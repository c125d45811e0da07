"""Finishes a layer: `python finish_layer.py FOLDER [--remove NAME ...] [--remove-listed FILE]`.

Lambda's file system is read-only, so a module without byte code would be compiled at each cold
start. Lambda's user owns no file, so every file must be readable by all. Times are fixed, so that
the same files give the same layer on every machine, and a change of code uploads one small layer.

It runs in the image's build stages: their base image has Python but neither `find` nor a package
manager, and for the zip on the machine that deploys.
"""

import argparse
import compileall
import os
import py_compile
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

#: The code's folder in Lambda's images. The layer contains the whole path, so that the times of
#: its folders are fixed too, not those of the copy.
_TASK_ROOT = "var/task"
#: 1980-01-01, the first time that a zip file can hold, too.
_TIME = 315_532_800


def finish(folder: Path, *, remove: Iterable[str] = ()) -> None:
    """Remove files, compile modules, make everything readable and set fixed times.

    Args:
        folder: The layer, with its content under `var/task`.
        remove: Names, or paths under `var/task`, with wildcards, of files or whole folders.

    Raises:
        ValueError: A module does not compile, or a path with a folder matches nothing.
    """
    for pattern in remove:
        _remove(folder / _TASK_ROOT, pattern)
    compiled = compileall.compile_dir(
        folder,
        quiet=1,
        force=True,
        stripdir=str(folder),
        prependdir="/",  # tracebacks show the module's path in the image
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    if not compiled:
        raise ValueError(f"a module under {folder} does not compile")
    for path in [folder, *folder.rglob("*")]:
        mode = path.stat().st_mode
        runs = path.is_dir() or mode & 0o111
        path.chmod(mode | (0o555 if runs else 0o444))
        os.utime(path, (_TIME, _TIME))


def _remove(folder: Path, pattern: str) -> None:
    matches = list(folder.glob(pattern) if "/" in pattern else folder.rglob(pattern))
    if "/" in pattern and not matches:
        raise ValueError(f"nothing to remove: {folder} has no {pattern}")
    for path in matches:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _listed(file: Path | None) -> list[str]:
    """Return the lines of a file that are neither empty nor comments."""
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    return [line for line in lines if line and not line.startswith("#")]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--remove", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--remove-listed", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        finish(options.folder, remove=[*options.remove, *_listed(options.remove_listed)])
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
