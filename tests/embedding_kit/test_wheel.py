"""Test the package as another app installs it."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> set[str]:
    """Return the names of the files in the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", folder], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(built).namelist())


def test_the_images_recipe_goes_with_the_constructs(wheel):
    """The wheel contains every file of the image's Docker context."""
    sent = {
        line.removeprefix("!")
        for line in (ROOT / "lambda_image" / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    recipe = {
        name.removeprefix("embedding_kit/lambda_image/")
        for name in wheel
        if name.startswith("embedding_kit/lambda_image/")
    }
    own = {".dockerignore", "Dockerfile", "build_zip.py", "zip_builder"}
    assert sent | own == {name.partition("/")[0] for name in recipe}
    sources = {
        str(path.relative_to(ROOT / "lambda_image"))
        for package in ("embedder", "model_compiler", "zip_builder")
        for path in (ROOT / "lambda_image" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources <= recipe


def test_no_byte_code_and_no_tests_are_in_it(wheel):
    """The wheel contains sources only."""
    assert not [name for name in wheel if name.endswith(".pyc") or name.startswith("tests/")]


def test_the_load_generator_goes_with_its_words_and_the_cost_model(wheel):
    """`embed load` works where only the wheel is installed."""
    needed = {
        "embedding_costs/traffic.py",
        "embedding_load/words.txt",
        "embedding_load/__main__.py",
    }
    assert needed <= wheel


@pytest.mark.parametrize(
    ("package", "taken", "refused"),
    [("aws-cdk-lib", ["2.275.0", "2.999.0"], "3.0.0"), ("constructs", ["10.8.1", "10.99.0"], "11")],
)
def test_an_app_may_have_another_cdk(package, taken, refused):
    """The package accepts the CDK's current major version; this app pins the tested version."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = map(Requirement, extras["optional-dependencies"]["infrastructure"])
    (requirement,) = (item for item in listed if item.name == package)
    assert [version in requirement.specifier for version in [*taken, refused]] == [
        True,
        True,
        False,
    ]
    lock = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    assert {item["version"] for item in lock if item["name"] == package} == {taken[0]}
