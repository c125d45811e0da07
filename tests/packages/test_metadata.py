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
