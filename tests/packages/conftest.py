"""The distributions, built as they are published: the wheels from the source distributions."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"embedding-kit": ROOT, "embedding-client": ROOT / "client"}


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> Path:
    """Return a folder with both source distributions, and the wheels that are built from them."""
    folder = tmp_path_factory.mktemp("dist")
    for source in FOLDERS.values():
        build = ["build", "--offline", "--no-build-isolation", "--python", sys.executable]
        uv(*build, "--out-dir", str(folder), str(source))
    return folder


@pytest.fixture(scope="session")
def wheels(dist) -> dict[str, Path]:
    """Return the wheel of each distribution."""
    return {
        name: next(dist.glob(f"{name.replace('-', '_')}-*-py3-none-any.whl")) for name in FOLDERS
    }


class Environment:
    """A virtual environment in which nothing but wheels is installed."""

    def __init__(self, folder: Path, dist: Path, *, made: bool = True) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self._dist = dist
        if made:
            uv("venv", "--python", sys.executable, str(folder))

    def install(self, *arguments: str) -> None:
        """Install wheels, ours from the folder and the others in the versions of the lock file."""
        install = ["pip", "install", "--python", str(self.python), "--constraints", self.pins()]
        uv(*install, "--find-links", str(self._dist), *arguments)

    def resolve(self, resolution: str, *requirements: str) -> None:
        """Install wheels, the others in the lowest or the highest versions that ours allow."""
        install = ["pip", "install", "--python", str(self.python), "--resolution", resolution]
        uv(*install, "--upgrade", "--find-links", str(self._dist), *requirements)

    def pins(self) -> str:
        """Return the path of the constraints with the versions of the lock file."""
        pins = self._dist / "pins.txt"
        if not pins.exists():
            export = ["export", "--frozen", "--no-hashes", "--no-annotate", "--no-emit-workspace"]
            export += ["--all-groups", "--all-extras", "--project", str(ROOT)]
            uv(*export, "--output-file", str(pins))
        return str(pins)

    def packages(self) -> set[str]:
        """Return the names of the installed distributions."""
        program = (
            "from importlib.metadata import distributions as found\n"
            "print(*(one.metadata['Name'] for one in found()))"
        )
        return set(self.run("-c", program).split())

    def run(self, *arguments: str, status: int = 0) -> str:
        """Run Python outside the repository; return what it writes."""
        return self.execute([self.python, "-W", "error", *arguments], status=status)

    def execute(self, command: Sequence[str | Path], *, status: int = 0, **variables: str) -> str:
        """Run a program with those of the environment first on the path."""
        variables = self.variables() | variables
        done = subprocess.run(
            command,
            cwd=variables.pop("PWD"),
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def variables(self) -> dict[str, str]:
        """Return environment variables without any of this repository's and of Python's own."""
        return {
            # Node.js for the CDK is in this repository's environment.
            "PATH": os.pathsep.join(
                [str(self.python.parent), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
            ),
            # Where jsii has unpacked the CDK.
            "HOME": str(Path.home()),
            "PWD": str(self.folder.parent),
            "LANG": "C.UTF-8",
        }


def uv(*arguments: str) -> None:
    """Run uv without a configuration of this machine or repository."""
    program = Path(sys.executable).with_name("uv")
    trusted = os.environ | {"UV_SYSTEM_CERTS": "1"}
    subprocess.run([program, "--quiet", "--no-config", *arguments], check=True, env=trusted)
