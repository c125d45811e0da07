"""An embedding model, a sparse encoder and a reranker in one function, and its searches."""

import re
import shutil
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
from embedder.core.search import EntryMetadata, IndexMatch
from embedder.core.settings import EmbedderSettings
from embedder.http.apis.search import fused
from embedder.http.router import Router
from jobs.release_check.handler import ReleaseRefusedError, check_version
from model_compiler.errors import SourceError
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
    """Both searches, the weighed sum of scores from 0 to 1, the reranker's order of the best."""
    dense, sparse = (found(router, query, mode, 5) for mode in ("dense", "sparse"))
    lowest, highest = min(dense.values()), max(dense.values())
    sums = {name: 0.7 * (score - lowest) / (highest - lowest) for name, score in dense.items()}
    for name, score in sparse.items():
        sums[name] = sums.get(name, 0) + 0.3 * score / max(sparse.values())
    order = best(sums)[:5]
    body = {"query": query, "top_k": 4, "candidates": 5}
    answer = read(post(router, "/search", {**body, "rerank": False}))
    assert [(result["id"], result["score"]) for result in answer["results"]] == [
        (name, pytest.approx(sums[name])) for name in order[:4]
    ]
    top = answer["results"][0]
    assert top["text"] == TEXTS[top["index"]]
    assert top["scores"] == {
        **({"dense": dense[top["id"]]} if top["id"] in dense else {}),
        **({"sparse": sparse[top["id"]]} if top["id"] in sparse else {}),
        "fused": pytest.approx(sums[top["id"]]),
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


@pytest.mark.parametrize(
    ("dense", "sparse", "order"),
    [
        # Equal sums: the earlier list comes first, and in a list the better rank.
        ({"a": 0.9, "b": 0.9}, {}, {"a": 0.7, "b": 0.7}),
        ({"x": 0.9}, {"y": 9.0}, {"x": 0.7, "y": 0.3}),
        # The lowest cosine counts as much as none; a cosine may be negative.
        ({"a": 0.6, "b": 0.2, "c": -0.4}, {"c": 4.0, "b": 1.0}, {"a": 0.7, "b": 0.495, "c": 0.3}),
        # A word that is rare in the index overrules a small difference of cosines.
        ({"a": 0.6, "b": 0.58, "c": 0.1}, {"b": 20.0}, {"b": 0.972, "a": 0.7, "c": 0.0}),
        ({}, {}, {}),
    ],
)
def test_scores_of_two_lists_are_fused(dense, sparse, order):
    """A score is brought to 0 to 1 by its list's best, and for cosines the lowest one."""
    lists = {
        mode: [IndexMatch(name, None, score, name) for name, score in scores.items()]
        for mode, scores in (("dense", dense), ("sparse", sparse))
    }
    candidates = fused(lists)
    assert [candidate.match.id for candidate in candidates] == [*order]
    assert [candidate.scores["fused"] for candidate in candidates] == pytest.approx(
        [*order.values()]
    )
    assert [candidate.match.id for candidate in fused({"sparse": lists["sparse"]})] == [*sparse]


@pytest.fixture(scope="module")
def by_words(models: Path) -> Router:
    """Return the router of the embedding model alone, whose index has BM25."""
    folder = models.with_name("index-words")
    build_index(TEXTS, models / "embed", folder, bm25=True)
    return build_router(EmbedderSettings(artifact=str(models / "embed"), index=str(folder)))


def test_words_are_searched_without_a_model(by_words, alone):
    """`sparse` finds rare words first, `hybrid` both; neither is what a request gets by default."""
    sparse = found(by_words, "Dates of HELLO xylophone", "sparse", 20)
    assert next(TEXTS[int(name)] for name in sparse) == "the date of the hello"
    assert {TEXTS[int(name)] for name in sparse} == {
        text for text in TEXTS if {"date", "of", "hello"} & set(text.split())
    }
    for mode, stages in {None: {"dense"}, "hybrid": {"dense", "sparse", "fused"}}.items():
        body = {"query": "hello", "mode": mode} if mode else {"query": "hello"}
        answer = read(post(by_words, "/search", body))
        assert stages >= {stage for result in answer["results"] for stage in result["scores"]}
        assert answer["sparse_space"] == ("bm25@1" if mode else None)
        assert answer["results"][0]["scores"].keys() == stages
    body = {"query": "xylophone ?!", "mode": "sparse", "filter": None}
    assert read(post(by_words, "/search", body))["results"] == []
    refused = read(post(by_words, "/similar", {"text": "x", "mode": "lexical"}), 400)["error"]
    assert 'one of "dense", "sparse"' in refused
    no_prompt = {"text": "x", "mode": "sparse", "prompt_name": "query"}
    assert "prompt_name" in read(post(by_words, "/similar", no_prompt), 400)["error"]
    document = read(get(by_words, "/openapi.json"))
    validate(document)
    for path, body in {"/": {"text": "a"}, "/similar": {"text": "a"}}.items():
        assert post(by_words, path, body).body == post(alone["embed"], path, body).body


def test_words_have_headings_and_filters(models, tmp_path):
    """The words of headings are an entry's own; a filter limits the searches of each mode."""
    about = [
        EntryMetadata(f"id-{position}", {"even": position % 2 == 0, "headings": "Xylophones"})
        for position in range(len(TEXTS))
    ]
    build_index(TEXTS, models / "embed", tmp_path / "index", about=about, bm25=True)
    settings = EmbedderSettings(artifact=str(models / "embed"), index=str(tmp_path / "index"))
    router, odd = build_router(settings), {f"id-{position}" for position in range(1, len(TEXTS), 2)}
    assert found(router, "xylophone", "sparse", 20).keys() == {entry.id for entry in about}
    for mode in ("dense", "sparse", "hybrid"):
        body = {"query": "xylophone", "mode": mode, "top_k": 20, "filter": {"even": False}}
        results = read(post(router, "/search", body))["results"]
        assert {result["id"] for result in results} == odd


def test_words_that_an_index_cannot_have(models, by_words, tmp_path):
    """BM25 and a sparse encoder exclude each other, and files of two indexes are refused."""
    for artifact in (models, models / "sparse"):
        with pytest.raises(SourceError, match=r"takes the place of a sparse encoder .* found both"):
            build_index(TEXTS, artifact, tmp_path / "both", bm25=True)
    index = models.with_name("index-words")
    with pytest.raises(IndexFolderError, match="has bm25@1 sparse_space; the model serves"):
        build_router(EmbedderSettings(artifact=str(models), index=str(index)))
    broken = shutil.copytree(index, tmp_path / "index")
    np.save(broken / "words.npy", np.arange(3, dtype=np.uint64))
    with pytest.raises(IndexFolderError, match="must be as many as those of the vocabulary, 3"):
        build_router(EmbedderSettings(artifact=str(models / "embed"), index=str(broken)))
