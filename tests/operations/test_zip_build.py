"""Building the zip before a deploy: for an environment that has one, from this source."""

import subprocess
import sys

import pytest

from operations import command, zip_build

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture
def built(tmp_path, monkeypatch) -> list[list[str]]:
    """Provide the environments `image` and `zip`, and return the commands that are run."""
    for name in ("image", "zip"):
        (tmp_path / f"{name}.toml").write_text(
            f'[model]\nname = "{MINILM}"\n[function]\npackage = "{name}"\n'
        )
    monkeypatch.setattr(command, "ENVIRONMENTS", tmp_path)
    ran: list[list[str]] = []

    def run(command, **_):
        ran.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr("operations.zip_build.subprocess.run", run)
    return ran


def test_a_zip_is_built_by_the_command_of_the_assembly(built):
    """The status is the builder's, so a zip that cannot be built stops the deploy."""
    assert zip_build.main(["zip", "--require-approval", "never"]) == 3
    ((python, script, *arguments),) = built
    assert python == sys.executable
    assert script.endswith("lambda_image/build_zip.py")
    assert arguments == [MINILM]


@pytest.mark.parametrize("arguments", [["image"], ["zip", "--app", "cdk.out"], ["zip", "-a", "x"]])
def test_nothing_is_built_for_an_image_or_from_an_assembly(built, arguments):
    """The CDK's command builds these from the assembly."""
    assert zip_build.main(arguments) == 0
    assert built == []
