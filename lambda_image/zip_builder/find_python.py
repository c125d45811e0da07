"""Finds the Python that compiles the byte code: its version must be that of Lambda's runtime.

Without byte code, Lambda would compile every module again at each cold start, because it cannot
write next to the code.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from zip_builder import ZipError

#: Such as `3.13`.
VERSION = (Path(__file__).parents[1] / ".python-version").read_text(encoding="utf-8").strip()
_ASK = "import sys; print(sys.implementation.name, *sys.version_info[:2])"
_ANSWER = " ".join(("cpython", *VERSION.split(".")))


def find_python() -> str:
    """Return the path of that CPython: this process's, an installed one, or one uv installs."""
    problems: list[str] = []
    for candidate in _candidates(problems):
        if _is_target(candidate):
            return candidate
    found = "".join(f", and uv cannot install it: {problem}" for problem in problems)
    raise ZipError(
        f"Python {VERSION} is needed to compile the byte code of Lambda's Python {VERSION}; "
        f"found: Python {sys.version.split()[0]} only{found}; allowed: python{VERSION} on the "
        f"PATH, such as after `uv python install {VERSION}` or from your system's packages"
    )


def _candidates(problems: list[str]) -> Iterator[str]:
    """Yield programs that may be it, the most likely first; uv downloads only as the last.

    If uv cannot install one, its reason is added to `problems`.
    """
    yield sys.executable
    if found := shutil.which(f"python{VERSION}"):
        yield found
    for versions in _pyenv_versions():
        yield from map(str, sorted(versions.glob(f"{VERSION}.*/bin/python"), reverse=True))
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        return
    for command in ("find", "install"):
        if command == "install":
            install = [uv, "python", "install", "--no-progress", VERSION]
            done = subprocess.run(install, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode != 0:
                problems.append(" ".join(done.stderr.split()) or f"status {done.returncode}")
                return
        find = [uv, "python", "find", "--managed-python", "--no-python-downloads", VERSION]
        done = subprocess.run(find, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode == 0:
            yield done.stdout.strip()


def _pyenv_versions() -> list[Path]:
    """Return the folders in which pyenv may have its versions: that of this process's Python too.

    In a job with another environment, neither `PYENV_ROOT` nor `HOME` has to name it.
    """
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    return [root / "versions", Path(sys.base_prefix).parent]


def _is_target(program: str) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - a Python of this machine
            [program, "-I", "-c", _ASK], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return done.stdout.strip() == _ANSWER
