"""An embedding model, a sparse encoder and a reranker in one function, and its searches."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openapi_spec_validator import validate

from embedder.application import build_router
from embedder.core.artifact import GoldenTerms, load_artifacts
from embedder.core.errors import IndexFolderError, SettingsError
from embedder.core.reranker import Reranker
from embedder.core.search import IndexMatch
from embedder.core.settings import EmbedderSettings
from embedder.http.apis.search import fused
from embedder.http.router import Router
from jobs.release_check.handler import ReleaseRefusedError, check_version
from model_compiler.index_builder import build_index
from tests.embedder.calls import get, post, read
from tests.fixtures.models_together import WRITERS, write_together
from tests.jobs.release_check.conftest import version_of

TEXTS = [
    *("hello world", "the time and the date", "x y z", "parse a date", "hello hello", "a time"),
    *(f"the date of the {word}" for word in ("hello", "world", "time", "text", "word")),
]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of three artifacts and of their index."""
    return write_together(tmp_path_factory.mktemp("models"), TEXTS)


@pytest.fixture(scope="module")
def models(together: tuple[Path, Path]) -> Path:
    return together[0]


@pytest.fixture(scope="module")
def router(together: tuple[Path, Path]) -> Router:
    models, index = together
    return build_router(EmbedderSettings(artifact=str(models), index=str(index)))


@pytest.fixture(scope="module")
def alone(models: Path) -> dict[str, Router]:
    """Return the router of each model alone, with an index of its own."""
    routers = {}
    for task in WRITERS:
        folder = None
        if task != "rerank":
            folder = str(models.with_name(f"index-{task}"))
            build_index(TEXTS, models / task, Path(folder))
        routers[task] = build_router(EmbedderSettings(artifact=str(models / task), index=folder))
    return routers


def test_one_router_serves_the_routes_of_all(router, alone):
    """Each model answers with the bytes that it answers with alone; `POST /` is the first one's."""
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("embed", "/", {"text": "hello world"}),
        ("sparse", "/embed_sparse", {"inputs": "hello world"}),
        ("rerank", "/rerank", {"query": "the date", "texts": ["hello world", "a date"]}),
    ]
    for task, path, body in calls:
        assert post(router, path, body).body == post(alone[task], path, body).body
    for path in ("/health", "/info"):
        embedding, *companions = (
            read(get(alone[task], path)) for task in ("embed", "rerank", "sparse")
        )
        assert read(get(router, path)) == {
            **embedding,
            "rerank": companions[0],
            "sparse": companions[1],
        }
    document = read(get(router, "/openapi.json"))
    validate(document)
    assert {"/v1/embeddings", "/embed_sparse", "/v2/rerank"} <= document["paths"].keys()
    assert len(document["info"]["summary"].split("; ")) == 3
    served_kinds = "of an embedding model and a reranker and a sparse encoder"
    assert served_kinds in read(get(router, "/nowhere"), 404)["error"]


def test_the_mode_of_a_search_chooses_the_model(router, alone):
    """Both search the same texts, each as it does alone; another mode is refused."""
    body = {"text": "the date", "num_results": 4}
    for task, mode in (("embed", "dense"), ("sparse", "sparse")):
        expected = post(alone[task], "/similar", {**body, "mode": mode}).body
        assert post(router, "/similar", {**body, "mode": mode}).body == expected
    assert post(router, "/similar", body).body == post(alone["embed"], "/similar", body).body
    refused = read(post(router, "/similar", {**body, "mode": "lexical"}), 400)["error"]
    assert 'one of "dense", "sparse"' in refused
    # The word in a text is no mode.
    assert read(post(router, "/similar", {"text": 'the "sparse" date'}))["vector_space"] == (
        router.model.loaded.manifest.space
    )


def test_an_index_without_postings(models, alone):
    """An index of the embedding model alone is refused at the start; without one, none searches."""
    assert alone["embed"].model.search_index is not None
    with pytest.raises(IndexFolderError, match="has no sparse_space; the model serves"):
        build_router(
            EmbedderSettings(artifact=str(models), index=str(models.with_name("index-embed")))
        )
    without = build_router(EmbedderSettings(artifact=str(models)))
    assert "mode" in read(post(without, "/similar", {"text": "x", "mode": "sparse"}), 400)["error"]
    assert read(post(without, "/similar", {"text": "x"}), 404)["code"] == "no_index"


def test_a_cache_that_a_sparse_encoder_does_not_have(models):
    """Alone, it refuses entries of a cache; next to an embedding model, they are that model's."""
    with pytest.raises(SettingsError, match="keeps no vectors; cache_entries must be 0 or unset"):
        build_router(EmbedderSettings(artifact=str(models / "sparse"), cache_entries=10))
    assert build_router(EmbedderSettings(artifact=str(models), cache_entries=10)).models[2:]


def test_one_release_check_is_of_all(models, router):
    """Golden weights are asked for by the path that is the sparse encoder's."""
    call = version_of(router)
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


def found(router: Router, query: str, mode: str, count: int) -> dict[str, float]:
    """Return the ids and the scores of `POST /similar`."""
    body = {"text": query, "num_results": count, "mode": mode}
    results = read(post(router, "/similar", body))["results"]
    return {entry["id"]: entry["score"] for entry in results}


def best(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: -scores[name])


@pytest.mark.parametrize("query", ["the date", "hello", "a time of the world"])
def test_a_hybrid_search_is_the_exact_pipeline(router, query):
    """Both searches, the sum of 1 / (60 + rank), and the reranker's order of the best."""
    dense, sparse = (found(router, query, mode, 5) for mode in ("dense", "sparse"))
    sums: dict[str, float] = {}
    for ids in (dense, sparse):
        for rank, name in enumerate(ids, start=1):
            sums[name] = sums.get(name, 0) + 1 / (60 + rank)
    order = best(sums)[:5]
    body = {"query": query, "top_k": 4, "candidates": 5}
    answer = read(post(router, "/search", {**body, "rerank": False}))
    assert [(result["id"], result["score"]) for result in answer["results"]] == [
        (name, sums[name]) for name in order[:4]
    ]
    top = answer["results"][0]
    assert top["text"] == TEXTS[top["index"]]
    assert top["scores"] == {
        **({"dense": dense[top["id"]]} if top["id"] in dense else {}),
        **({"sparse": sparse[top["id"]]} if top["id"] in sparse else {}),
        "fused": sums[top["id"]],
    }
    assert answer["score_space"] is None
    assert answer["timings"].keys() == {"embed", "index", "sparse", "fuse"}
    texts = {"query": query, "texts": [TEXTS[int(name)] for name in order]}
    ranked = read(post(router, "/rerank", {**texts, "truncate": True}))
    answer = read(post(router, "/search", body))
    assert [(result["id"], result["score"]) for result in answer["results"]] == [
        (order[result["index"]], result["score"]) for result in ranked[:4]
    ]
    embed, rerank, sparse_model = (model.loaded.manifest for model in router.models)
    spaces = (answer["vector_space"], answer["sparse_space"], answer["score_space"])
    assert spaces == (embed.space, sparse_model.space, rerank.space)
    assert answer["timings"].keys() == {"embed", "index", "sparse", "fuse", "rerank"}


def test_a_search_ranks_by_the_rerankers_logits(router, monkeypatch):
    """The order is the same if float32 rounds all scores to 1."""
    body = {"query": "the date", "top_k": 6}
    best = [result["id"] for result in read(post(router, "/search", body))["results"]]
    fused = read(post(router, "/search", {**body, "rerank": False}))["results"]
    assert best != [result["id"] for result in fused]
    monkeypatch.setattr(Reranker, "activated", lambda _, logits: np.ones_like(logits))
    results = read(post(router, "/search", body))["results"]
    assert [(result["id"], result["score"]) for result in results] == [(key, 1.0) for key in best]


def test_a_search_in_one_mode(router, alone):
    """It is that of `POST /similar`; a model alone searches in its own mode."""
    for mode, task in (("dense", "embed"), ("sparse", "sparse")):
        expected = [*found(router, "the date", mode, 3).items()]
        body = {"query": "the date", "top_k": 3, "rerank": False}
        answer = read(post(router, "/search", {**body, "mode": mode}))
        assert [(result["id"], result["score"]) for result in answer["results"]] == expected
        assert [result["ranks"] for result in answer["results"]] == [{mode: n} for n in (1, 2, 3)]
        same = read(post(alone[task], "/search", body))
        assert same["results"] == answer["results"]
        assert same["vector_space"] == answer["vector_space"]


def test_what_a_search_lacks_is_named(router, alone):
    """Each refusal names the field, the value found and the values allowed."""
    refusals: list[tuple[Router, dict[str, Any], str, str]] = [
        (alone["embed"], {"mode": "hybrid"}, "mode", 'must be "dense"'),
        (router, {"mode": "lexical"}, "mode", 'one of "dense", "sparse", "hybrid"'),
        (alone["embed"], {"rerank": True}, "rerank", "no reranker: .* found true"),
        (router, {"candidates": 3}, "candidates", 'at least "top_k", 10; found 3'),
        (router, {"filter": {"year": 2020}}, "filter", "the index has no metadata"),
        (router, {"query": " "}, "query", "query"),
    ]
    for served, change, field, message in refusals:
        error = read(post(served, "/search", {"query": "x", **change}), 400)
        assert error["field"] == field
        assert re.search(message, error["error"]), error
    long = {"query": "hello " * 40, "truncate": True}
    assert "no room for a passage" in read(post(router, "/search", long), 413)["error"]
    without = read(post(alone["rerank"], "/search", {"query": "x"}), 404)
    assert "POST /search" not in without["error"]


def test_settings_that_one_of_them_cannot_have(models):
    """Truncation from the left is refused: no reranker has it. A reranker alone has no index."""
    for message, settings in {
        "is a reranker: it cuts the ends": EmbedderSettings(artifact=str(models), truncate="left"),
        "no vectors to search with": EmbedderSettings(artifact=str(models / "rerank"), index="x"),
    }.items():
        with pytest.raises(SettingsError, match=message):
            build_router(settings)


def test_equal_sums_have_one_order():
    """The entry of the earlier list is first, and in a list the one with the better rank."""
    lists = {
        "dense": [IndexMatch("a", 0, 0.9, "a"), IndexMatch("b", 1, 0.8, "b")],
        "sparse": [
            IndexMatch("b", 1, 7.0, "b"),
            IndexMatch("a", 0, 6.0, "a"),
            IndexMatch("c", 2, 5.0, "c"),
        ],
    }
    assert [candidate.match.id for candidate in fused(lists)] == ["a", "b", "c"]
    assert [candidate.match.id for candidate in fused({"sparse": lists["sparse"]})] == [*"bac"]
    lists = {"dense": [IndexMatch("x", 0, 1.0, "x")], "sparse": [IndexMatch("y", 1, 9.0, "y")]}
    assert [candidate.match.id for candidate in fused(lists)] == ["x", "y"]
