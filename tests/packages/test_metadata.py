"""Test what the distributions say of themselves: version, license, Python, dependencies."""

import tomllib
import zipfile
from importlib.metadata import version

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from .conftest import FOLDERS, ROOT


@pytest.fixture(scope="module")
def metadata(wheels) -> dict[str, Metadata]:
    """Return the metadata of each wheel, which is read strictly."""
    found = {}
    for name, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            (file,) = (each for each in archive.namelist() if each.endswith("/METADATA"))
            found[name] = Metadata.from_email(archive.read(file))
    return found


def needed(metadata: Metadata, extra: str = "") -> dict[str, Requirement]:
    """Return what a distribution needs, by name."""
    listed = metadata.requires_dist or []
    return {
        one.name: one
        for one in listed
        if one.marker is None or one.marker.evaluate({"extra": extra})
    }


def test_both_have_one_version(metadata):
    """They are released together."""
    client, kit = metadata["embedding-client"], metadata["embedding-kit"]
    assert client.version == kit.version
    assert {version(name) for name in FOLDERS} == {str(kit.version)}


def test_the_client_is_light(metadata):
    """Without an extra, it needs neither the CDK nor a compiler nor ONNX Runtime."""
    light = {"anyio", "botocore", "httpx", "numpy", "tqdm"}
    assert needed(metadata["embedding-client"]).keys() == light
    assert set(metadata["embedding-client"].provides_extra or []) == {
        "langchain",
        "llamaindex",
        "load",
        "parquet",
    }


def test_the_constructs_need_no_extra(metadata):
    """The extras add the libraries of the programs that the kit has as data."""
    wanted = {"aws-cdk-lib", "constructs", "pydantic", "tzdata"}
    assert needed(metadata["embedding-kit"]).keys() == wanted
    assert set(metadata["embedding-kit"].provides_extra or []) == {
        "batch",
        "compiler",
        "engine",
        "server",
        "zip",
    }


@pytest.mark.parametrize(
    ("package", "taken", "refused"),
    [("aws-cdk-lib", ["2.275.0", "2.999.0"], "3.0.0"), ("constructs", ["10.8.1", "10.99.0"], "11")],
)
def test_an_app_may_have_another_cdk(metadata, package, taken, refused):
    """The package accepts the CDK's current major version; the lock file has the tested one."""
    specifier = needed(metadata["embedding-kit"])[package].specifier
    assert [one in specifier for one in [*taken, refused]] == [True, True, False]
    lock = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    assert {item["version"] for item in lock if item["name"] == package} == {taken[0]}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_page_of_the_package_index_is_complete(metadata, wheels, name):
    """Description, license, classifiers of each Python that is tested, typing, addresses."""
    found = metadata[name]
    assert found.summary
    assert (found.description or "").startswith(f"# {name}\n")
    assert found.description_content_type == "text/markdown"
    assert (found.license_expression, found.license_files) == ("Apache-2.0", ["LICENSE"])
    classifiers = found.classifiers or []
    assert "Typing :: Typed" in classifiers
    pythons = [one.rpartition(" ")[2] for one in classifiers if "Python :: 3." in one]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    assert str(found.requires_python) == ">=3.11"
    assert {"Changelog", "Documentation", "Issues", "Repository"} == (
        found.project_urls or {}
    ).keys()
    with zipfile.ZipFile(wheels[name]) as archive:
        (file,) = (each for each in archive.namelist() if each.endswith("/licenses/LICENSE"))
        assert archive.read(file) == (ROOT / "LICENSE").read_bytes()
