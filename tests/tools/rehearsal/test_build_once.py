"""`scripts/build` and `scripts/deploy --image`, run as people run them, against an emulated AWS.

The functions run their own code, so each deploy is complete, with its release check.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from tools.local_endpoint.models import artifact_of
from tools.rehearsal.deploy.cdk import Cdk, Checkout, copy_checkout
from tools.rehearsal.deploy.deployed_functions import DeployedFunctions, function_server
from tools.rehearsal.deploy.docker_client import write_client
from tools.rehearsal.deploy.emulator import Emulator, emulator
from tools.rehearsal.report import Report

# Starts the CDK's command many times.
pytestmark = pytest.mark.slow

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
IN_S3 = {"function": {"package": "zip", "artifact": "s3"}, "cold_start": {"kind": "snapstart"}}


@dataclass(frozen=True)
class _Shell:
    """Runs scripts in a copy of the repository with several environments."""

    checkout: Checkout
    aws: Emulator
    docker: Path
    functions: DeployedFunctions
    #: The environment variables of its commands.
    variables: dict[str, str]

    def __call__(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.checkout.root,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def succeeds(self, *command: str) -> str:
        """Run a script that succeeds; return what it prints."""
        done = self(*command)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        return done.stdout.strip()

    def deploy(self, name: str, image: str) -> None:
        """Deploy an environment with an image or a zip."""
        options = ("--no-doctor", "--require-approval", "never")
        self.succeeds("scripts/deploy", name, "--image", image, *options)

    def configuration(self, name: str) -> dict[str, Any]:
        """Return the configuration of the version that an environment serves."""
        alias = self.aws.outputs(f"EmbeddingKit-{name}-Endpoint")["AliasArn"]
        found = self.aws.client("lambda").get_function(FunctionName=alias)
        return dict(found["Configuration"])

    def status(self, name: str) -> str:
        """Return the status of the endpoint's stack."""
        client = self.aws.client("cloudformation")
        (stack,) = client.describe_stacks(StackName=f"EmbeddingKit-{name}-Endpoint")["Stacks"]
        return str(stack["StackStatus"])

    def images(self, name: str) -> list[str]:
        """Return the digests in an environment's repository."""
        client = self.aws.client("ecr")
        found = client.describe_images(repositoryName=f"embedding-kit-{name}")["imageDetails"]
        return [image["imageDigest"] for image in found]

    @property
    def builds(self) -> int:
        """The number of images that were built."""
        return self.docker.with_suffix(".jsonl").read_text().count('["build"')


@pytest.fixture(scope="module")
def run(root: Path, tmp_path_factory):
    """Return a shell in a copy of the repository with `dev` and four other environments."""
    folder = tmp_path_factory.mktemp("build")
    checkout = copy_checkout(root, folder / "checkout", "dev")
    # Users edit theirs.
    shipped = root / "tests" / "fixtures" / "environments"
    shutil.copytree(shipped, checkout.file.parent, dirs_exist_ok=True)
    changes: dict[str, dict[str, Any]] = {
        "next": {"function": {"memory_mb": 2048}},
        "other": {"model": {"name": "mine/other"}},
        "large": IN_S3,
        "large-next": IN_S3,
    }
    for name, change in changes.items():
        document = tomlkit.parse(checkout.file.read_text())
        document.update(change)
        checkout.file.with_name(f"{name}.toml").write_text(tomlkit.dumps(document))
    (folder / "aws").mkdir()
    with function_server() as function, emulator(folder / "aws", function_url=function.url) as aws:
        artifacts = {"int8": artifact_of(MODEL)}
        functions = DeployedFunctions(aws, artifacts, checkout.root / "cdk.out")
        function.serve = functions.answer
        client = write_client(folder, aws)
        client.with_suffix(".jsonl").touch()
        cdk = Cdk(report=Report(), checkout=checkout, aws=aws, docker=client)
        cdk.succeeded(cdk.bootstrap())
        yield _Shell(checkout, aws, client, functions, cdk.variables())
        functions.close()


def test_an_image_is_built_once_for_two_environments(run):
    """The second build finds it by its tag; the other environment copies it and builds nothing."""
    printed = run.succeeds("scripts/build", "dev", "next")
    uri, _, digest = printed.partition("@")
    assert uri == f"{run.aws.registry}/embedding-kit-dev"
    assert run.succeeds("scripts/build", "dev", "next") == printed
    # The assembly of a deploy with an image has no folder of it.
    run.functions.learn(run.checkout.root / "cdk.out")
    for name in ("dev", "next"):
        run.deploy(name, printed)
        assert run.status(name) == "CREATE_COMPLETE"
        assert run.images(name) == [digest]
        stack = run.aws.client("cloudformation").get_template(
            StackName=f"EmbeddingKit-{name}-Endpoint"
        )["TemplateBody"]
        assert f"embedding-kit-{name}@{digest}" in str(stack)
    assert run.builds == 1


def test_an_artifact_is_promoted_with_its_zip(run):
    """The function of the other environment downloads the copy in that environment's bucket."""
    printed = run.succeeds("scripts/build", "large", "large-next")
    assert printed.startswith("s3://kit-large-")
    run.deploy("large-next", printed)
    assert run.status("large-next") == "CREATE_COMPLETE"
    variables = run.configuration("large-next")["Environment"]["Variables"]
    bucket, _, key = variables["EMBEDDING_ARTIFACT_LOCATION"].removeprefix("s3://").partition("/")
    assert bucket.startswith("kit-large-next-")
    listed = run.aws.client("s3").list_objects_v2(Bucket=bucket, Prefix="artifact/")
    assert [item["Key"] for item in listed["Contents"]] == [key]
