"""Synth builds no zip, and names it by the hash of its inputs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import App, CliCredentialsStackSynthesizer, DefaultStackSynthesizer, Stack
from aws_cdk.assertions import Match, Template

from embedding_kit import EmbeddingEndpoint, FunctionSettings, ModelSettings, ModelSource, programs
from embedding_kit.image_identity import build_command

ZIP = FunctionSettings(package="zip")
VERSION = (programs.image_folder() / ".python-version").read_text().strip()


@pytest.fixture
def synthesize_zip(tmp_path):
    """Synthesize a stack with an endpoint of a zip; return its folder, template and assets."""
    count = 0

    def make(model, *, synthesizer=None, **properties):
        nonlocal count
        count += 1
        out = tmp_path / f"out{count}"
        copied = {"aws:cdk:disable-asset-staging": False}
        app = App(outdir=str(out), post_cli_context=copied)
        stack = Stack(app, "Stack", synthesizer=synthesizer)
        EmbeddingEndpoint(stack, "Endpoint", model=model, function=ZIP, **properties)
        template = Template.from_stack(stack)
        return out, template, json.loads((out / "Stack.assets.json").read_text())

    return make


def _built(assets: dict) -> tuple[str, list[str]]:
    """Return the name and the command of the file that a command builds."""
    ((name, file),) = (
        (name, file) for name, file in assets["files"].items() if "executable" in file["source"]
    )
    return name, file["source"]["executable"]


@pytest.mark.parametrize(
    "synthesizer", [None, DefaultStackSynthesizer, CliCredentialsStackSynthesizer]
)
def test_the_functions_run_the_published_zip(synthesize_zip, model, synthesizer):
    """The embedder and the release check run the same zip on the Python of the image."""
    _, template, assets = synthesize_zip(model, synthesizer=synthesizer and synthesizer())
    name, _ = _built(assets)
    (destination,) = assets["files"][name]["destinations"].values()
    for handler in ("embedder.aws_lambda.handler.handler", "jobs.release_check.handler.handler"):
        template.has_resource_properties(
            "AWS::Lambda::Function",
            {
                "Handler": handler,
                "Runtime": f"python{VERSION}",
                "Architectures": ["arm64"],
                "PackageType": Match.absent(),
                "Code": {
                    "S3Bucket": {"Fn::Sub": destination["bucketName"]},
                    "S3Key": destination["objectKey"],
                },
            },
        )
    assert assets.get("dockerImages", {}) == {}


def test_the_assembly_has_the_recipe_and_no_zip(synthesize_zip, model):
    """The assembly has a copy of the recipe, and synth neither compiles nor downloads."""
    out, _, assets = synthesize_zip(model)
    _, command = _built(assets)
    script = Path(command[1])
    assert command[0] == sys.executable
    assert script.is_relative_to(out)
    recipe = {path.name for path in script.parent.iterdir()}
    assert {"build_zip.py", "requirements.txt", "embedder", "model_compiler"} <= recipe
    assert not recipe & {"Dockerfile", "server-requirements.txt"}
    assert not (script.parent / "jobs" / "embed").exists()
    assert not (script.parent / "embedder" / "server").exists()
    assert not list(out.rglob("*.zip"))
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "Build the zip of a function" in done.stdout


def test_the_name_of_the_zip_changes_with_what_is_in_it(
    synthesize_zip, model, tmp_path, monkeypatch
):
    """Other code or another model changes the name; another folder of the source does not."""
    name, _ = _built(synthesize_zip(model)[2])
    exact, _ = _built(synthesize_zip(model.model_copy(update={"precision": "fp32"}))[2])
    copy = tmp_path / "copy"
    shutil.copytree(
        programs.image_folder(), copy, ignore=shutil.ignore_patterns("__pycache__", "embed")
    )
    monkeypatch.setattr("embedding_kit.package.image_folder", lambda: copy)
    assert _built(synthesize_zip(model)[2])[0] == name
    (copy / "embedder" / "aws_lambda" / "handler.py").write_text("# other code\n")
    assert len({name, exact, _built(synthesize_zip(model)[2])[0]}) == 3


def test_a_folder_and_texts_change_the_name_with_their_content(synthesize_zip, tmp_path):
    """The content of the model's folder and of the texts changes the name; their paths do not."""

    def build(place: str, text: str) -> tuple[str, list[str]]:
        folder = tmp_path / place / "model"
        folder.mkdir(parents=True)
        (folder / "modules.json").write_text("[]")
        (tmp_path / place / "faq.txt").write_text(text)
        model = ModelSettings(name="mine", folder=folder, index=tmp_path / place / "faq.txt")
        return _built(synthesize_zip(model)[2])

    (one, command), (same, _) = build("one", "a\n"), build("two", "a\n")
    assert json.loads(command[2]) == {
        "model": {"name": "mine", "folder": str(tmp_path / "one" / "model")},
        "texts": str(tmp_path / "one" / "faq.txt"),
    }
    assert one == same != build("three", "b\n")[0]


def test_the_command_has_the_models_and_the_name_of_the_tokens_variable(tmp_path):
    """The builder gets the models of an image's build, with the folders of this machine."""
    model = ModelSettings(name="acme/pair", route="document", hub_token_variable="HF_TOKEN")
    _, _, models, *words = build_command(model)
    assert json.loads(models) == {"model": {"name": "acme/pair", "route": "document"}}
    assert words == ["--hub-token-variable", "HF_TOKEN"]
    ranker = ModelSource(name="acme/ranker", folder=tmp_path, precision="fp32")
    (models,) = build_command(ModelSettings(name="acme/model", reranker=ranker))[2:]
    assert json.loads(models) == {
        "model": {"name": "acme/model"},
        "reranker": {"name": "acme/ranker", "precision": "fp32", "folder": str(tmp_path)},
    }
