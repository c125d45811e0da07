"""Virtual environments of other programs in .cache: each is installed once for each set of pins."""

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CACHE = Path(__file__).resolve().parents[1] / ".cache"


def pinned_environment(name: str, pins: Path, *own: Path) -> Path:
    """Return the Python of an environment, which is created once for each set of pins.

    Args:
        name: The name of its folder in the cache.
        pins: The file with its packages.
        own: The folders of this repository's packages. Their dependencies are among the pins.

    Raises:
        CalledProcessError: uv cannot install it. The next call begins again.
    """
    environment = CACHE / name
    stamp, python = environment / "stamp", environment / "bin" / "python"
    state = f"{pins.read_text()}{sys.version}{own}"
    with locked(name):
        if not stamp.is_file() or stamp.read_text() != state:
            _uv("venv", "--clear", "--python", sys.executable, environment)
            install = ("pip", "install", "--python", python)
            _uv(*install, "--requirement", pins)
            if own:
                editable = [word for folder in own for word in ("--editable", folder)]
                _uv(*install, "--no-deps", "--no-build-isolation", *editable)
            stamp.write_text(state)
    return python


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Let no other process change a folder of the cache."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _uv(*arguments: str | Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    trusted = os.environ | {"UV_SYSTEM_CERTS": "1"}
    subprocess.run([uv, "--quiet", "--no-config", *arguments], check=True, env=trusted)  # noqa: S603  (the uv of .venv)
