"""The app in examples/ is synthesized in a folder of its own, with the commands of its page."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages
from tests.docs.pages import BASH, BLOCK

from .conftest import ROOT, Environment

pytestmark = pytest.mark.slow

CDK = ROOT / "scripts" / "node_modules" / ".bin" / "cdk"


@pytest.fixture(scope="module")
def environment(dist, tmp_path_factory) -> Environment:
    """Return the environment that the page's commands make in a folder with nothing but a clone."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "embedding-kit").symlink_to(ROOT)
    (block,) = BLOCK.finditer((ROOT / "docs" / "examples" / "app" / "README.md").read_text("utf-8"))
    commands = block["code"].partition("npx ")[0]
    environment = Environment(folder / "search" / ".venv", dist, made=False)
    variables = environment.variables() | {"PWD": str(folder), "PIP_CONSTRAINT": environment.pins()}
    pages.run([*BASH, commands], folder, **variables)
    return environment


def asset(folder: Path, kind: str, key: str) -> Any:
    """Return from what the function's code is published: the one asset that has this key."""
    listed = json.loads((folder / "Search.assets.json").read_text())[kind].values()
    (found,) = (each["source"][key] for each in listed if key in each["source"])
    return found


def test_the_app_is_synthesized(environment, tmp_path):
    """With the CDK's command: an endpoint with the image of a checkout, alarms, a grant."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    # Without what the command adds to a template.
    bare = ["--no-asset-metadata", "--no-path-metadata", "--no-version-reporting"]
    command = [CDK, "synth", "--quiet", "--no-notices", *bare, "--output", outside]
    environment.execute(command, CDK_DISABLE_CLI_TELEMETRY="true")
    template = json.loads((outside / "Search.template.json").read_text())
    types = [resource["Type"] for resource in template["Resources"].values()]
    assert {"AWS::Lambda::Url", "AWS::CloudWatch::CompositeAlarm", "AWS::SNS::Topic"} <= {*types}
    assert list(template["Outputs"])[-1] == "EmbeddingUrl"

    context = outside / asset(outside, "dockerImages", "directory")
    assert (context / "Dockerfile").read_bytes() == (
        ROOT / "lambda_image" / "Dockerfile"
    ).read_bytes()
    assert (context / "embedder" / "aws_lambda" / "handler.py").is_file()
    assert not list(context.rglob("*.pyc"))

    # The same app with this checkout in place of the installed packages.
    environment.execute([sys.executable, "app.py"], CDK_OUTDIR=str(inside))
    assert json.loads((inside / "Search.template.json").read_text()) == template


def test_every_construct_can_be_imported(environment):
    """Each name of `embedding_kit.__all__`, without a warning."""
    program = "import embedding_kit as kit; print([getattr(kit, name) for name in kit.__all__])"
    assert "embedding_kit.endpoint.EmbeddingEndpoint" in environment.run("-c", program)


def test_a_zip_is_built_by_the_apps_own_python(environment, tmp_path):
    """Synth names the command, which finds the builder in the cloud assembly."""
    context = json.dumps({"package": "zip"})
    environment.execute(
        [environment.python, "app.py"], CDK_OUTDIR=str(tmp_path), CDK_CONTEXT_JSON=context
    )
    python, builder, *arguments = asset(tmp_path, "files", "executable")
    assert python == str(environment.python)
    assert Path(builder).is_relative_to(tmp_path)
    assert arguments == ['{"model": {"name": "BAAI/bge-small-en-v1.5"}}']
    assert environment.run(builder, "--help").startswith("usage: ")
