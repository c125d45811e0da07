"""scripts/lock exports the files that pip reads from uv.lock."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
EXPORTS = (
    "scripts/uv-requirements.txt",
    "lambda_image/requirements.txt",
    "lambda_image/batch-requirements.txt",
    "lambda_image/server-requirements.txt",
    "lambda_image/compiler-requirements.txt",
)


def locked(name: str) -> dict[str, Any]:
    """Return the one version of a package that the lock file has."""
    (package,) = (package for package in LOCK["package"] if package["name"] == name)
    return package


def exported(path: str) -> dict[NormalizedName, tuple[str, set[str]]]:
    """Return the version and the hashes of each package in a requirements file."""
    lines = (ROOT / path).read_text().replace("\\\n", " ").splitlines()
    versions = {}
    for line in lines:
        if line.startswith("#"):
            continue
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        parsed = Requirement(requirement)
        versions[canonicalize_name(parsed.name)] = (str(parsed.specifier), set(hashes))
    return versions


def names(requirements: list[str]) -> set[NormalizedName]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


@pytest.mark.parametrize("path", EXPORTS)
def test_an_exported_file_has_the_versions_and_hashes_of_the_lock_file(path):
    """The image and the bootstrap of uv install the files that the tests ran with."""
    packages = exported(path)
    assert packages
    for name, (version, hashes) in packages.items():
        package = locked(name)
        assert version == f"=={package['version']}"
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        assert {file["hash"] for file in files} <= hashes, name


def test_the_apps_requirements_are_those_of_the_lock_file():
    """The app itself, in place, and each package that its constructs depend on."""
    comment, editable, *lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert comment.startswith("# Written by scripts/lock")
    assert editable == "-e ."
    pinned = dict(line.split("==") for line in lines)
    needed = names(PROJECT["project"]["dependencies"])
    while (
        unexpected := {
            canonicalize_name(dependency["name"])
            for name in needed
            for dependency in locked(name).get("dependencies", [])
            if "win32" not in dependency.get("marker", "")
        }
        - needed
    ):
        needed |= unexpected
    assert pinned == {name: locked(name)["version"] for name in needed}


@pytest.mark.parametrize("group", ["image", "batch-image", "server-image"])
def test_an_image_installs_the_packages_of_its_group(group):
    """They are installed without dependencies, so the file has nothing else."""
    path = f"lambda_image/{group.removesuffix('image')}requirements.txt"
    assert set(exported(path)) == names(PROJECT["dependency-groups"][group])


def test_the_batchs_image_has_what_a_job_on_this_machine_has():
    """Both groups together are the package's extra `batch`; only the progress bar is left out."""
    groups = PROJECT["dependency-groups"]
    extra = names(PROJECT["project"]["optional-dependencies"]["batch"])
    assert extra - names([*groups["image"], *groups["batch-image"]]) == {"tqdm"}


def test_the_image_compiles_with_all_that_the_compiler_needs():
    """The file has the package's extra `compiler`, and all that those packages depend on."""
    packages = set(exported("lambda_image/compiler-requirements.txt"))
    assert names(PROJECT["project"]["optional-dependencies"]["compiler"]) <= packages
    for name in packages:
        # Not on Linux, or only with an older Python than the image has.
        needed = {
            dependency["name"]
            for dependency in locked(name).get("dependencies", [])
            if not re.search(r"python_full_version < '3\.1[123]'", dependency.get("marker", ""))
        }
        assert needed <= packages, name


def test_the_lock_file_names_no_registry_but_pypi():
    """It installs the same files everywhere, whatever index the machine that wrote it uses."""
    sources = {str(package["source"]) for package in LOCK["package"]}
    own = {str({"editable": folder}) for folder in (".", "client")}
    assert sources == {str({"registry": "https://pypi.org/simple"}), *own}
    hosts = set(re.findall(r"https?://([^/]+)/", (ROOT / "uv.lock").read_text()))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
