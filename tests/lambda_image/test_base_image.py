"""`scripts/base-image`, which prints the base image's digest as a setting."""

import os
import subprocess
from pathlib import Path

import pytest

from embedding_kit import Model

ROOT = Path(__file__).resolve().parents[2]
DIGEST = f"sha256:{'0123456789abcdef' * 4}"


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the script with a fake docker, which records its arguments."""

    def with_docker(printed: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        docker = tmp_path / "docker"
        docker.write_text(
            "#!/bin/sh\n"
            f"printf '%s\\n' \"$@\" > {tmp_path}/asked\n"
            f"echo '{printed}'\n"
            f"exit {status}\n"
        )
        docker.chmod(0o755)
        return subprocess.run(
            [ROOT / "scripts" / "base-image"],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )

    return with_docker


def test_the_setting_is_printed_as_the_file_takes_it(run, tmp_path):
    """The setting has the Dockerfile's tag and the registry's current digest."""
    done = run(f'"{DIGEST}"')
    image = f"public.ecr.aws/lambda/python:3.13-arm64@{DIGEST}"
    assert (done.stdout, done.returncode) == (f'base_image = "{image}"\n', 0)
    assert Model(name="any/model", base_image=image).base_image == image
    assert (tmp_path / "asked").read_text().splitlines() == [
        "buildx",
        "imagetools",
        "inspect",
        "public.ecr.aws/lambda/python:3.13-arm64",
        "--format",
        # Without `json` some releases of buildx print a table: docker/buildx#1175.
        "{{json .Manifest.Digest}}",
    ]


@pytest.mark.parametrize(("printed", "status"), [("Name: python", 0), ("", 0), ("", 1)])
def test_no_digest_is_an_error_and_no_setting(run, printed, status):
    """Output of docker that is not a digest gives an error and no setting."""
    done = run(printed, status)
    assert done.returncode != 0
    assert done.stdout == ""
