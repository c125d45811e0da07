"""The distributions, built as they are published: the wheels from the source distributions."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"embedding-kit": ROOT, "embedding-client": ROOT / "client"}


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> Path:
    """Return a folder with both source distributions, and the wheels that are built from them."""
    folder = tmp_path_factory.mktemp("dist")
    uv = Path(sys.executable).with_name("uv")
    build = [uv, "build", "--quiet", "--no-config", "--offline", "--no-build-isolation"]
    for source in FOLDERS.values():
        command = [*build, "--python", sys.executable, "--out-dir", folder, source]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="session")
def wheels(dist) -> dict[str, Path]:
    """Return the wheel of each distribution."""
    return {
        name: next(dist.glob(f"{name.replace('-', '_')}-*-py3-none-any.whl")) for name in FOLDERS
    }
