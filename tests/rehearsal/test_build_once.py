"""`scripts/build` and `scripts/deploy --image`, run as people run them, against an emulated AWS."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy_rehearsal.cdk import Cdk
from deploy_rehearsal.checkout import copy_checkout
from deploy_rehearsal.docker_client import write_client
from deploy_rehearsal.emulator import emulator

# Starts the CDK's command many times.
pytestmark = pytest.mark.slow

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory):
    """Return a function that runs a script in a copy of the repository, with two environments."""
    folder = tmp_path_factory.mktemp("build")
    checkout = copy_checkout(root, folder / "checkout", "dev")
    shutil.copy(checkout.file, checkout.file.with_name("next.toml"))
    other = checkout.file.read_text().replace(
        "sentence-transformers/all-MiniLM-L6-v2", "mine/other"
    )
    checkout.file.with_name("other.toml").write_text(other)
    (folder / "aws").mkdir()
    with emulator(folder / "aws") as aws:
        client = write_client(
            folder, registry=aws.registry, local=f"localhost:{aws.port}", docker=None, variables={}
        )
        cdk = Cdk(checkout=checkout, aws=aws, docker=client)
        assert cdk.bootstrap().status == 0

        def run(*command: str) -> subprocess.CompletedProcess[str]:
            variables = {
                **aws.variables(),
                "PATH": f"{checkout.root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": checkout.python_path,
                "UV_NO_SYNC": "1",
                "CDK_DOCKER": str(client),
            }
            return subprocess.run(
                command,
                cwd=checkout.root,
                env=variables,
                capture_output=True,
                text=True,
                check=False,
            )

        run.builds = lambda: (folder / "docker.jsonl").read_text().count('["build"')  # type: ignore[attr-defined]
        run.aws = aws  # type: ignore[attr-defined]
        yield run


def test_an_image_is_built_once_for_two_environments(run):
    """The second build finds it by its tag; the other environment copies it and builds nothing."""
    first = run("scripts/build", "dev")
    assert first.returncode == 0, first.stderr[-3000:]
    uri, _, digest = first.stdout.strip().partition("@")
    assert uri == f"{run.aws.registry}/embedding-kit-dev"
    assert run.builds() == 1
    again = run("scripts/build", "dev")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert run.builds() == 1

    # The endpoint's functions have no code in this test: its stack fails at the release check.
    deployed = run(
        "scripts/deploy", "next", "--image", digest, "--no-doctor", "--require-approval", "never"
    )
    assert "copied to" in deployed.stderr, deployed.stderr[-3000:]
    assert run.builds() == 1
    found = run.aws.client("ecr").describe_images(repositoryName="embedding-kit-next")
    assert [image["imageDigest"] for image in found["imageDetails"]] == [digest]
    stack = run.aws.client("cloudformation").get_template(StackName="EmbeddingKit-next-Endpoint")[
        "TemplateBody"
    ]
    assert f"embedding-kit-next@{digest}" in str(stack)


def test_an_image_of_another_model_is_refused_before_anything_is_deployed(run):
    """Not even the repository's stack is created."""
    digest = run("scripts/build", "dev").stdout.strip().partition("@")[2]
    refused = run("scripts/deploy", "other", "--image", digest, "--require-approval", "never")
    assert refused.returncode == 1
    assert f"[model] name: found: {MODEL}; allowed: mine/other" in refused.stderr
    assert "nothing was deployed" in refused.stderr
    stacks = run.aws.client("cloudformation").describe_stacks()["Stacks"]
    assert not [stack for stack in stacks if "-other-" in stack["StackName"]]
