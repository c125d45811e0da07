"""The wheels have all that a program needs, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .conftest import FOLDERS, ROOT

#: What each wheel puts into the folder of installed packages, besides its metadata.
TOP = {"embedding-client": {"embedding_client"}, "embedding-kit": {"embedding_kit"}}
SOURCES = {
    "embedding_client": ROOT / "client" / "embedding_client",
    "embedding_kit": ROOT / "constructs" / "embedding_kit",
    **{
        f"embedding_kit/lambda_image/{name}": ROOT / "lambda_image" / name
        for name in ("embedder", "jobs", "model_compiler", "zip_builder")
    },
}


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.partition("/")[0].endswith(".dist-info")
        }


@pytest.fixture(scope="module")
def installed(wheels) -> dict[str, dict[str, bytes]]:
    """Return the files that each distribution installs."""
    return {name: contents(wheel) for name, wheel in wheels.items()}


@pytest.mark.parametrize("name", TOP)
def test_a_wheel_has_these_packages(installed, name):
    """No other top-level name, such as those of the app and the tools of this repository."""
    assert {file.partition("/")[0] for file in installed[name]} == TOP[name]


def test_no_file_is_in_both_wheels(installed):
    """Installed together, neither overwrites a file of the other."""
    client, kit = installed.values()
    assert not client.keys() & kit.keys()


@pytest.mark.parametrize("package", SOURCES)
def test_a_package_is_whole(installed, package):
    """Each module and each file of data, `py.typed` included; no byte code and no tests."""
    folder = SOURCES[package]
    sources = {
        f"{package}/{file.relative_to(folder)}": file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    found = {
        name: content
        for files in installed.values()
        for name, content in files.items()
        if name.startswith(f"{package}/")
        and not name.removeprefix(package).startswith("/lambda_image/")
    }
    assert found == sources
    assert f"{package}/__init__.py" in found
    if package != "embedding_kit/lambda_image/zip_builder":  # a command, which no program imports
        assert f"{package}/py.typed" in found


def test_the_images_recipe_goes_with_the_constructs(installed):
    """The wheel has what the image's build sends to Docker, what builds a zip, and the contract."""
    sent = {
        line.removeprefix("!")
        for line in (ROOT / "lambda_image" / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    recipe = {
        name.split("/")[2]
        for name in installed["embedding-kit"]
        if name.startswith("embedding_kit/lambda_image/")
    }
    assert recipe == sent | {
        ".dockerignore",
        ".python-version",
        "Dockerfile",
        "build_zip.py",
        "contract.json",
        "zip_builder",
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_a_checkout_and_a_source_distribution_give_the_same_wheel(installed, tmp_path, name):
    """So does `pip install .` in a checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    command += ["--directory", str(tmp_path)]
    subprocess.run(command, cwd=FOLDERS[name], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert contents(wheel) == installed[name]
