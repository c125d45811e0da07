"""Building the zip before a deploy: for an environment that has one, from this source."""

import json
import subprocess
import sys

import pytest

from operations import zip_build

from .conftest import dev_with


@pytest.fixture
def built(monkeypatch) -> list[list[str]]:
    """Return the commands that are run; each fails with status 3."""
    ran: list[list[str]] = []

    def run(command, **_):
        ran.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr("operations.zip_build.subprocess.run", run)
    return ran


def test_a_zip_is_built_by_the_command_of_the_assembly(built):
    """The status is the builder's, so a zip that cannot be built stops the deploy."""
    environment = dev_with(function={"package": "zip"})
    assert zip_build.build_zip(environment) == 3
    ((python, script, models),) = built
    assert python == sys.executable
    assert script.endswith("lambda_image/build_zip.py")
    assert json.loads(models) == {"model": {"name": environment.model.name}}


def test_nothing_is_built_for_an_image(built):
    """The CDK's command builds it."""
    assert zip_build.build_zip(dev_with()) == 0
    assert built == []
