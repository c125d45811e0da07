"""A Router becomes two artifacts of one vector space, and no third is of it."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from embedder.core.artifact import Artifact, load_artifact
from embedder.core.engine import Engine
from model_compiler.command import main
from model_compiler.index_builder import main as build_index
from model_compiler.model.folder import ModelFolder
from model_compiler.routes import routes_of
from tests.model_compiler.conftest import embed_each
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.tiny_models import MODULES, TEXTS, write_model, write_router

GOLDEN = np.load(Path(__file__).resolve().parent / "goldens" / "routes.npz")


@pytest.fixture
def router(tmp_path: Path) -> Path:
    """Return the folder of a Router with two random encoders."""
    return write_router(tmp_path / "pair")


def compiled(folder: Path, output: Path, *options: str) -> dict[str, Artifact]:
    arguments = ["compile", str(folder), "--output", str(output), "--precision", "fp32", "--quiet"]
    assert main([*arguments, *(options or ("--unmeasured",))]) == 0
    return {route: load_artifact(output / route) for route in ("query", "document")}


def test_vectors_are_those_of_encode_query_and_encode_document(router, tmp_path):
    """Each route has its modules, those that both share, and its own default prompt."""
    for route, artifact in compiled(router, tmp_path / "out").items():
        np.testing.assert_allclose(embed_each(artifact, TEXTS), GOLDEN[route], atol=1e-6, rtol=0)


def test_both_are_of_one_space(router, tmp_path, compile_tiny):
    """The manifests name one space and the measured alignment; each route alone has another."""
    artifacts = compiled(router, tmp_path / "out")
    manifests = [artifact.manifest for artifact in artifacts.values()]
    (space,) = {manifest.vector_space for manifest in manifests}
    for route, folder in routes_of(ModelFolder.read(router)).items():
        alone = shutil.copytree(folder.path, tmp_path / route)  # a link to elsewhere is refused
        assert compile_tiny(alone).manifest.vector_space != space
    (alignment,) = {json.dumps(manifest.fidelity["alignment"]) for manifest in manifests}
    assert json.loads(alignment)["texts"] == 250
    assert -1 <= json.loads(alignment)["cosine_min"] < json.loads(alignment)["cosine_mean"] < 1
    assert [manifest.fidelity["route"] for manifest in manifests] == ["query", "document"]
    another_pair = compiled(write_router(tmp_path / "pair", seed=5), tmp_path / "other")
    assert space not in {artifact.manifest.vector_space for artifact in another_pair.values()}


def test_one_route_is_written_alone(router, tmp_path):
    """`--route` writes the artifact that the pair has for it, and nothing of the other."""
    artifacts = compiled(router, tmp_path / "both")
    words = ["compile", str(router), "--precision", "fp32", "--unmeasured", "--quiet", "--route"]
    for _ in range(2):  # an artifact is replaced
        assert main([*words, "query", "--output", str(tmp_path / "one")]) == 0
        alone = load_artifact(tmp_path / "one").manifest
        assert alone == artifacts["query"].manifest
        names = {path.name for path in (tmp_path / "one").iterdir()}
        assert names == {*alone.files, "manifest.json"}


def test_a_route_of_a_model_without_routes(tmp_path, capsys):
    """It is refused by name, and nothing is written."""
    model = write_model(tmp_path / "model")
    assert main(["compile", str(model), "--route", "query", "--output", str(tmp_path / "o")]) == 2
    assert "must be a Router of sentence-transformers to have routes" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_an_index_of_documents_is_searched_by_queries(router, tmp_path, capsys):
    """What holds documents' vectors has the space that the queries' endpoint answers with."""
    artifacts = compiled(router, tmp_path / "out")
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    arguments = [
        "--artifact",
        str(tmp_path / "out" / "document"),
        "--output",
        str(tmp_path / "index"),
    ]
    assert build_index([str(tmp_path / "texts.json"), *arguments]) == 0
    index = json.loads((tmp_path / "index" / "manifest.json").read_text("utf-8"))
    assert index["vector_space"] == Engine.load(artifacts["query"]).vector_space()
    arguments = ["--artifact", str(tmp_path / "out" / "query"), "--output", str(tmp_path / "wrong")]
    assert build_index([str(tmp_path / "texts.json"), *arguments]) == 2
    assert "encodes queries; the texts of an index must be" in capsys.readouterr().err


def test_parts_that_are_not_aligned(router, tmp_path, capsys):
    """Two unrelated encoders are refused as a pair, except in an unmeasured compile."""
    arguments = ["compile", str(router), "--output", str(tmp_path / "out"), "--quiet"]
    assert main([*arguments, "--precision", "fp32"]) == 2
    assert "must be nearest to the document vector of the same text" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_routes_of_other_dimensions_are_refused(router, tmp_path, capsys):
    """The vectors of a query and of a document must be comparable."""
    edit_json(router / "document_1_Pooling" / "config.json", pooling_mode=["cls", "mean"])
    assert main(["compile", str(router), "--output", str(tmp_path / "out"), "--unmeasured"]) == 2
    assert "both routes must have the same dimensions; found [32]" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "code"), [(0.79, 2), (0.8, 0)])
def test_four_of_five_texts_must_find_themselves(router, tmp_path, monkeypatch, share, code):
    """Less than that is a pair of encoders that were not trained together."""
    alignment = {"texts": 250, "own_nearest": share, "cosine_min": 0.5, "cosine_mean": 0.9}
    monkeypatch.setattr("model_compiler.routes._alignment", lambda *_, **__: alignment)
    arguments = ["compile", str(router), "--output", str(tmp_path / "out"), "--quiet"]
    assert main([*arguments, "--precision", "fp32"]) == code


def test_inspect_says_it_of_each_route(router, capsys):
    """Both routes are named, and each with its default prompt."""
    assert main(["inspect", str(router)]) == 0
    said = capsys.readouterr().out
    assert "pair (query) compiles from its weights." in said
    assert "pair (document) compiles from its weights." in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"structure": {"query": [], "image": []}}, "the routes query and document, .* query, im"),
        ({"parameters": {"route_mappings": {"a": "query"}}}, "and route_mappings"),
        ({"structure": []}, "types and structure must be objects"),
        ({"structure": {"query": ["x"], "document": []}}, "must list modules with a type each"),
        ({"sparkle": 1}, "does not know: sparkle"),
    ],
)
def test_routes_that_cannot_be_expressed(router, capsys, changes, message):
    """Other routes, a rule that selects one, or damage is refused by name."""
    edit_json(router / "router_config.json", lambda value: value | changes)
    assert main(["compile", str(router), "--output", "nowhere", "--unmeasured"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_modules_before_a_router(router):
    """A Router that is not the first module is refused like any unknown module."""
    transformer = {"path": "x", "type": f"{MODULES}Transformer", "name": "9"}
    edit_json(router / "modules.json", lambda modules: [transformer, *modules])
    assert routes_of(ModelFolder.read(router)) == {}
