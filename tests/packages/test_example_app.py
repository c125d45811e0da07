"""The app in examples/ is synthesized outside the repository, with nothing but the wheels."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, Environment

pytestmark = pytest.mark.slow

CDK = ROOT / "scripts" / "node_modules" / ".bin" / "cdk"


@pytest.fixture(scope="module")
def environment(dist, tmp_path_factory) -> Environment:
    """Return the environment next to a copy of the app."""
    app = tmp_path_factory.mktemp("app")
    shutil.copytree(ROOT / "docs" / "examples" / "app", app, dirs_exist_ok=True)
    environment = Environment(app / ".venv", dist)
    environment.install("--requirement", str(app / "requirements.txt"))
    # As pip does, which the page names. Byte code must not change the image.
    packages = next(environment.folder.glob("lib/python3*/site-packages"))
    environment.run("-m", "compileall", "-q", str(packages / "embedding_kit"))
    return environment


def asset(folder: Path, kind: str, key: str) -> Any:
    """Return from what the function's code is published: the one asset that has this key."""
    listed = json.loads((folder / "Search.assets.json").read_text())[kind].values()
    (found,) = (each["source"][key] for each in listed if key in each["source"])
    return found


def test_the_app_is_synthesized_from_the_wheels(environment, tmp_path):
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

    # The same app with this checkout in place of the wheels.
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
    assert arguments == ["BAAI/bge-small-en-v1.5"]
    assert environment.run(builder, "--help").startswith("usage: ")
