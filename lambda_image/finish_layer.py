"""Finishes an image's layer where it is built: `python finish_layer.py FOLDER [--remove NAME ...]`.

Lambda's file system is read-only: a module without byte code would be compiled at each cold start.
Lambda's user owns nothing: every file must be readable to all. And times are fixed, so that the
same files are the same layer on every machine, and a change of code sends one small layer, not all.

It runs in the build stages, whose base image has Python, and neither `find` nor a package manager.
"""

import argparse
import compileall
import os
import py_compile
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

#: Where Lambda's images have their code. The layer holds this path whole, so that the times of its
#: folders are the layer's own, not those of the moment when they were copied.
_PLACE = "var/task"
#: 1980-01-01, the first time that a zip file can hold, too.
_TIME = 315_532_800


def finish(folder: Path, *, remove: Iterable[str] = ()) -> None:
    """Remove what is named, compile what is left, open it to all and fix its times.

    Args:
        folder: The layer, with its content under `var/task`.
        remove: Names, or paths under `var/task`, with wildcards: files, or folders with all they
            hold.

    Raises:
        ValueError: A module does not compile, or a path with a folder in it fits nothing.
    """
    for pattern in remove:
        _remove(folder / _PLACE, pattern)
    compiled = compileall.compile_dir(
        folder,
        quiet=1,
        force=True,
        stripdir=str(folder),
        prependdir="/",  # tracebacks show where the module will stand
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
    found = list(folder.glob(pattern) if "/" in pattern else folder.rglob(pattern))
    if "/" in pattern and not found:
        raise ValueError(f"nothing to remove: {folder} has no {pattern}")
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--remove", nargs="*", default=[], metavar="NAME")
    asked = parser.parse_args()
    try:
        finish(asked.folder, remove=asked.remove)
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
