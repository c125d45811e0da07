"""An embedding model, a sparse encoder and a reranker in one function, and its searches."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openapi_spec_validator import validate

from embedder.core.artifact import GoldenTerms, load_artifacts
from embedder.core.errors import IndexFolderError, SettingsError
from embedder.core.settings import Settings
from embedder.http.http_types import Request
from embedder.http.router import Router, build_router
from jobs.release_check.handler import Answer, ReleaseRefusedError, check_version
from model_compiler.artifact.together import main
from model_compiler.command import main as compile_model
from model_compiler.index_builder import build_index
from tests.embedder.calls import get, post, read
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.sparse_models import write_sparse
from tests.model_compiler.goldens.tiny_models import write_model

TEXTS = [
    *("hello world", "the time and the date", "x y z", "parse a date", "hello hello", "a time"),
    *(f"the date of the {word}" for word in ("hello", "world", "time", "text", "word")),
]
WRITERS: Mapping[str, Callable[[Path], Path]] = {
    "embed": write_model,
    "sparse": write_sparse,
    "rerank": write_reranker,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of three artifacts."""
    root = tmp_path_factory.mktemp("models")
    for task, write in WRITERS.items():
        model = write(root / f"{task}-model")
        words = ["--precision", "fp32", "--documents", "20", "--quiet"]
        output = ["--output", str(root / "all" / task)]
        assert compile_model(["compile", str(model), *output, *words]) == 0
    assert main([str(root / "all")]) == 0
    return root / "all"


@pytest.fixture(scope="module")
def index(models: Path) -> Path:
    """Return the index of the texts, made of the embedding model and the sparse encoder."""
    folder = models.with_name("index")
    build_index(TEXTS, models, folder)
    return folder


@pytest.fixture(scope="module")
def router(models: Path, index: Path) -> Router:
    """Return the router of all."""
    return build_router(Settings(artifact=str(models), index=str(index)))


@pytest.fixture(scope="module")
def alone(models: Path) -> dict[str, Router]:
    """Return the router of each model alone, with an index of its own."""
    made = {}
    for task in WRITERS:
        folder = None
        if task != "rerank":
            folder = str(models.with_name(f"index-{task}"))
            build_index(TEXTS, models / task, Path(folder))
        made[task] = build_router(Settings(artifact=str(models / task), index=folder))
    return made


def test_one_router_serves_the_routes_of_all(router: Router, alone: dict[str, Router]) -> None:
    """Each model answers with the bytes that it answers with alone; `POST /` is the first one's."""
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("embed", "/", {"text": "hello world"}),
        ("sparse", "/embed_sparse", {"inputs": "hello world"}),
        ("rerank", "/rerank", {"query": "the date", "texts": ["hello world", "a date"]}),
    ]
    for task, path, body in asked:
        assert post(router, path, body).body == post(alone[task], path, body).body
    for path in ("/health", "/info"):
        first, *others = (read(get(alone[task], path)) for task in ("embed", "rerank", "sparse"))
        assert read(get(router, path)) == {**first, "rerank": others[0], "sparse": others[1]}
    document = read(get(router, "/openapi.json"))
    validate(document)
    assert {"/v1/embeddings", "/embed_sparse", "/v2/rerank"} <= document["paths"].keys()


def test_the_mode_of_a_search_chooses_the_model(router: Router, alone: dict[str, Router]) -> None:
    """Both search the same texts, each as it does alone; another mode is refused."""
    body = {"text": "the date", "num_results": 4}
    for task, mode in (("embed", "dense"), ("sparse", "sparse")):
        wanted = post(alone[task], "/similar", {**body, "mode": mode}).body
        assert post(router, "/similar", {**body, "mode": mode}).body == wanted
    assert post(router, "/similar", body).body == post(alone["embed"], "/similar", body).body
    refused = read(post(router, "/similar", {**body, "mode": "lexical"}), 400)["error"]
    assert 'one of "dense", "sparse"' in refused
    # The word in a text is no mode.
    assert read(post(router, "/similar", {"text": 'the "sparse" date'}))["vector_space"] == (
        router.model.engine.manifest.space
    )


def test_an_index_without_postings(models: Path, alone: dict[str, Router]) -> None:
    """An index of the embedding model alone is refused at the start; without one, none searches."""
    assert alone["embed"].model.search_index is not None
    folder = str(models.with_name("index-embed"))
    with pytest.raises(IndexFolderError, match="has no sparse_space; the model serves"):
        build_router(Settings(artifact=str(models), index=folder))
    without = build_router(Settings(artifact=str(models)))
    refused = read(post(without, "/similar", {"text": "x", "mode": "sparse"}), 400)["error"]
    assert "mode" in refused
    assert read(post(without, "/similar", {"text": "x"}), 404)["code"] == "no_index"


def test_a_cache_that_a_sparse_encoder_does_not_have(models: Path) -> None:
    """Alone, it refuses entries of a cache; next to an embedding model, they are that model's."""
    with pytest.raises(SettingsError, match="keeps no vectors; cache_entries must be 0 or unset"):
        build_router(Settings(artifact=str(models / "sparse"), cache_entries=10))
    assert build_router(Settings(artifact=str(models), cache_entries=10)).models[2:]


def test_one_release_check_is_of_all(models: Path, router: Router) -> None:
    """Golden weights are asked for by the path that is the sparse encoder's."""

    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        encoded = json.dumps(body).encode() if body is not None else b""
        response = router.handle(Request(method, path, body=encoded))
        return Answer(status=response.status, body=json.loads(response.body))

    embed, rerank, sparse = (artifact.manifest for artifact in load_artifacts(models))
    embed = embed._replace(golden=())
    (vector,) = call("POST", "/embed_sparse", {"inputs": "a date"}).body
    best = max(vector, key=lambda entry: entry["value"])
    golden = GoldenTerms("a date", None, (best["index"],), (best["value"],))
    spaces = check_version(call, embed, rerank, sparse._replace(golden=(golden,)), starts=1)
    assert spaces == f"{embed.space} + rerank:{rerank.space} + sparse:{sparse.space}"
    wrong = golden._replace(values=(float(np.float32(best["value"]) + 1),))
    with pytest.raises(ReleaseRefusedError, match=r"the weight of token .* differs"):
        check_version(call, embed, rerank, sparse._replace(golden=(wrong,)), starts=1)
