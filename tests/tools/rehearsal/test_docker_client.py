"""The program that the CLI runs as `docker`."""

import json
import subprocess

import pytest

from tools.rehearsal.deploy.docker_client import push_empty, recorded_calls, write_client

REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


@pytest.fixture
def run(tmp_path, aws):
    """Run the written client; without containers if no program is given."""

    def do(*arguments: str, docker: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        variables = {"FROM_REHEARSAL": "1"}
        client = write_client(tmp_path, aws, docker=docker or (), variables=variables)
        command = [str(client), *arguments]
        return subprocess.run(
            command, input="", capture_output=True, text=True, check=False, cwd=tmp_path
        )

    return do


def test_the_registry_is_replaced_and_a_build_gets_its_secret(run, tmp_path):
    """The CLI's other arguments are unchanged."""
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\necho "$FROM_REHEARSAL" "$@"\n')
    echo.chmod(0o755)
    docker = [str(echo), "--secret", "id=certificates"]
    built = run("build", "--tag", "a", ".", docker=docker)
    assert built.stdout == "1 build --secret id=certificates --tag a .\n"
    pushed = run("push", f"{REGISTRY}/images:1", docker=docker).stdout.split()
    assert pushed[:2] == ["1", "push"]
    assert pushed[2].startswith("localhost:")
    assert recorded_calls(tmp_path / "docker") == [
        ["build", "--tag", "a", "."],
        ["push", f"{REGISTRY}/images:1"],
    ]


def test_a_failure_of_docker_is_passed_on(run):
    """A failed build fails the deploy."""
    assert run("build", ".", docker=["/bin/false"]).returncode == 1


def test_without_containers_an_empty_image_is_pushed(run, aws, tmp_path):
    """Under the same tag, so that the deploy can continue."""
    aws.client("ecr").create_repository(repositoryName="without")
    assert run("inspect", "cdkasset-1").returncode == 1
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    for arguments in (
        ["login", "--password-stdin", REGISTRY],
        ["build", "--tag", "cdkasset-1", "--platform", "linux/arm64", "."],
        ["inspect", "cdkasset-1"],
        ["tag", "cdkasset-1", f"{REGISTRY}/without:1"],
        ["push", f"{REGISTRY}/without:1"],
    ):
        done = run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
    images = [{"imageTag": "1"}]
    (found,) = aws.client("ecr").batch_get_image(repositoryName="without", imageIds=images)[
        "images"
    ]
    assert json.loads(found["imageManifest"])["layers"] == []


def test_a_push_creates_no_repository(aws):
    """As on AWS, it is an error."""
    with pytest.raises(OSError, match="404"):
        push_empty(f"localhost:{aws.port}/nowhere:1")
