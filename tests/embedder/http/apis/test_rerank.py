"""The routes of a reranker: TEI's, Cohere's and Jina's, and 404 for those of the other kind."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from openapi_spec_validator import validate

from embedder.application import build_router
from embedder.core.artifact import Artifact
from embedder.core.errors import SettingsError
from embedder.core.reranker import Reranker
from embedder.core.settings import EmbedderSettings
from embedder.http.router import Router
from tests.embedder.calls import get, post, read
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.reranker_models import write_reranker

QUERY, TEXTS = "parse the date", ["hello world", "a date and a time", "x"]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return small_artifact(write_reranker(tmp_path_factory.mktemp("reranker") / "m"))


@pytest.fixture(scope="module")
def router(artifact: Artifact) -> Router:
    return build_router(EmbedderSettings(artifact=str(artifact.folder)))


def test_the_best_text_is_first(router):
    """Each entry has the text's index and score, and the text if it is asked for."""
    response = post(router, "/rerank", {"query": QUERY, "texts": TEXTS, "return_text": True})
    ranked = read(response)
    assert sorted(entry["index"] for entry in ranked) == [0, 1, 2]
    assert [entry["score"] for entry in ranked] == sorted(
        (entry["score"] for entry in ranked), reverse=True
    )
    assert all(entry["text"] == TEXTS[entry["index"]] for entry in ranked)
    assert response.headers["x-score-space"] == router.model.loaded.manifest.vector_space
    assert "x-vector-space" not in response.headers
    body = {"query": QUERY, "texts": TEXTS, "return_text": True, "top_n": 2}
    assert read(post(router, "/rerank", body)) == ranked[:2]


def test_predict_gives_the_same_scores(router):
    """A pair alone gives a list of labels, a list of pairs a list of those."""
    body = {"query": QUERY, "texts": TEXTS, "raw_scores": True}
    ranked = {entry["index"]: entry["score"] for entry in read(post(router, "/rerank", body))}
    pairs = [[QUERY, text] for text in TEXTS]
    predictions = read(post(router, "/predict", {"inputs": pairs, "raw_scores": True}))
    assert predictions == [[{"score": ranked[number], "label": "LABEL_0"}] for number in range(3)]
    assert (
        read(post(router, "/predict", {"inputs": pairs[1], "raw_scores": True})) == predictions[1]
    )


@pytest.fixture
def saturated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all scores be 1, as float32 rounds the sigmoids of large logits."""
    monkeypatch.setattr(Reranker, "activated", lambda _, logits: np.ones_like(logits))


@pytest.mark.parametrize(
    ("path", "many", "score"),
    [
        ("/rerank", "texts", "score"),
        ("/v1/rerank", "documents", "relevance_score"),
        ("/v2/rerank", "documents", "relevance_score"),
    ],
)
@pytest.mark.usefixtures("saturated")
def test_equal_scores_are_ranked_by_their_logits(router, path, many, score):
    """The best of six passages is first, although all have the score 1."""
    texts = [*TEXTS, "the date", "a time", "world x"]
    raw = read(post(router, "/rerank", {"query": QUERY, "texts": texts, "raw_scores": True}))
    order = [entry["index"] for entry in raw]
    assert order != sorted(order)
    answer = read(post(router, path, {"query": QUERY, many: texts}))
    ranked = answer if path == "/rerank" else answer["results"]
    assert [(entry["index"], entry[score]) for entry in ranked] == [(n, 1.0) for n in order]


def test_several_labels_have_no_order(tmp_path, request):
    """`/predict` gives each label's score, the highest first, and `/rerank` is not served."""
    artifact = small_artifact(write_reranker(tmp_path / "m", labels=3, saved={}))
    router = build_router(EmbedderSettings(artifact=str(artifact.folder)))
    labels = read(post(router, "/predict", {"inputs": [QUERY, "x"]}))
    assert sorted(entry["label"] for entry in labels) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert labels == sorted(labels, key=lambda entry: -entry["score"])
    request.getfixturevalue("saturated")
    again = read(post(router, "/predict", {"inputs": [QUERY, "x"]}))
    assert again == [{**entry, "score": 1.0} for entry in labels]
    for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
        assert read(post(router, path, {"query": QUERY, "texts": TEXTS}), 404)
    assert "classifier" in read(get(router, "/info"))["model_type"]


@pytest.mark.parametrize(("path", "version"), [("/v1/rerank", "1"), ("/v2/rerank", "2")])
def test_cohere_and_jina_have_the_scores_of_tei(router, path, version):
    """Texts, or objects with a text, are ranked; `top_n` keeps the best."""
    fields = {"query": QUERY, "texts": TEXTS}
    ranked = read(post(router, "/rerank", fields))
    logits = read(post(router, "/rerank", {**fields, "raw_scores": True}))
    body = {"model": "any", "query": QUERY, "documents": [TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]]}
    response = post(router, path, body)
    answer = read(response)
    space = router.model.loaded.manifest.vector_space
    tokens = answer["usage"]["total_tokens"]
    assert answer == {
        "id": response.headers["x-request-id"],
        "object": "list",
        "model": "m",
        "results": [
            {"index": entry["index"], "relevance_score": entry["score"], "logit": logit["score"]}
            for entry, logit in zip(ranked, logits, strict=True)
        ],
        "meta": {"api_version": {"version": version}, "tokens": {"input_tokens": tokens}},
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "score_space": space,
    }
    assert response.headers["x-score-space"] == space
    few = {"query": QUERY, "texts": TEXTS, "top_n": 2, "return_documents": True}
    assert read(post(router, path, few))["results"] == [
        {**entry, "document": {"text": TEXTS[entry["index"]]}} for entry in answer["results"][:2]
    ]


def test_documents_at_teis_path_have_coheres_answer(router):
    """Clients of infinity and vLLM send them there; TEI's texts keep TEI's answer."""
    fields = {"query": QUERY, "documents": TEXTS, "texts": None, "return_documents": True}
    of_cohere = read(post(router, "/v1/rerank", fields))
    of_infinity = read(post(router, "/rerank", fields))
    assert of_infinity == {**of_cohere, "id": of_infinity["id"], "object": "rerank"}
    raw = read(post(router, "/rerank", {**fields, "raw_scores": True, "top_n": None}))["results"]
    assert [(result["index"], result["relevance_score"]) for result in raw] == [
        (result["index"], result["logit"]) for result in of_cohere["results"]
    ]
    assert not any("logit" in result for result in raw)
    blank = {**fields, "documents": [" "]}
    assert read(post(router, "/rerank", blank), 400)["field"] == "documents[0]"
    doubled = {"query": QUERY, "documents": TEXTS, "texts": TEXTS}
    assert 'unknown: "documents"' in read(post(router, "/rerank", doubled), 422)["error"]


def test_documents_are_cut_and_the_query_is_not(router):
    """As Cohere does: the rest of the pair is the document's, or as many tokens as asked for."""

    def tokens(**body: Any) -> int:
        answer = read(post(router, "/v2/rerank", {"query": QUERY, **body}))
        return int(answer["usage"]["total_tokens"])

    assert tokens(documents=[LONG]) == 40
    assert tokens(documents=[LONG], max_tokens_per_doc=2) == tokens(documents=["hello world"])
    long_query = {"query": LONG, "documents": ["a"]}
    assert '"query" has' in read(post(router, "/v2/rerank", long_query), 400)["message"]
    long_query = {"query": "x" * 100_000, "documents": ["a"]}
    assert '"query" has 100000 char' in read(post(router, "/v2/rerank", long_query), 400)["message"]


LONG = "hello world " * 30
REFUSED = [
    ({"query": "a"}, 'either "documents" or "texts", a list of documents; found neither'),
    ({"query": "a", "documents": ["b"], "texts": ["b"]}, "found both"),
    ({"query": "a", "documents": "b"}, '"documents" must be a list that is not empty of strings'),
    ({"query": "a", "documents": []}, "found an empty list"),
    ({"query": "a", "documents": ["b", 1]}, '"documents[1]" must be a string'),
    ({"query": "a", "documents": [{"text": " "}]}, '"documents[0].text" must be a string'),
    ({"query": "a", "documents": [{"title": "b"}]}, '"documents[0].text" is missing'),
    ({"query": "a", "documents": [{"text": "b", "id": "1"}]}, 'unknown: "id"'),
    ({"query": "a", "documents": ["b"], "top_n": 0}, '"top_n" must be a whole number from 1'),
    ({"query": "a", "documents": ["b"], "rank_fields": ["c"]}, 'unknown: "rank_fields"'),
    ({"query": "a", "texts": ["b"] * 10_001}, "At most 10000 passages"),
    ({"query": "a", "texts": ["b", "hello " * 60], "truncate": False}, '"texts[1]" has '),
    # No hint is given, because a document is cut already and a query never.
    ({"query": LONG, "documents": ["b"]}, "room for a passage; the model allows 40 for both."),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_a_bad_request_has_the_errors_of_cohere_and_jina(router, body, message):
    """The status is 400, and the message is where the clients of both look for it."""
    response = post(router, "/v1/rerank", body)
    error = read(response, 400)
    assert message in error["message"]
    assert error["detail"] == error["message"]
    assert error["id"] == response.headers["x-request-id"]


BAD = [
    ("/rerank", {"query": " ", "texts": ["a"]}, 400, '"query" must be a string'),
    ("/rerank", {"query": "a", "texts": []}, 400, "found an empty list"),
    ("/rerank", {"query": "a", "texts": ["b", ""]}, 400, '"texts[1]" must be a string'),
    ("/rerank", {"query": "a", "texts": ["b", LONG]}, 422, '"texts[1]" has 64 tokens together'),
    ("/rerank", {"query": "a", "texts": ["b"] * 10_001}, 422, "At most 10000 passages"),
    ("/rerank", {"query": "a", "texts": ["b"], "top_k": 1}, 422, "A field is unknown"),
    ("/predict", {"inputs": "a"}, 422, '"inputs" must be a list of two strings'),
    ("/predict", {"inputs": [["a", "b"], ["c"]]}, 422, '"inputs[1]" must be a list of two'),
    ("/predict", {"inputs": [["a", "b"], ["c", LONG]]}, 422, '"inputs[1]" has 64 tokens'),
]


@pytest.mark.parametrize(("path", "body", "status", "message"), BAD)
def test_bad_input_is_named(router, path, body, status, message):
    """An error has TEI's status, and names the field with the place of the text."""
    assert message in read(post(router, path, body), status)["error"]


def test_a_pair_over_the_limit_is_cut_on_request(router):
    """With `truncate`, the pair has as many tokens as the model takes."""
    body = {"query": QUERY, "texts": [LONG], "truncate": True}
    assert post(router, "/rerank", body).headers["x-compute-tokens"] == "40"


def test_the_models_description(router):
    """`/health`, `/info` and the document name the score space and the golden pairs."""
    space = router.model.loaded.manifest.vector_space
    assert read(get(router, "/health")) == {"status": "ok", "model": "m", "score_space": space}
    info = read(get(router, "/info"))
    assert info["model_type"]["reranker"]["id2label"] == {"0": "LABEL_0"}
    assert info["score_space"] == space
    document = read(get(router, "/openapi.json"))
    validate(document)
    served = {"/rerank", "/predict", "/v1/rerank", "/v2/rerank", "/info", "/health"}
    assert served < set(document["paths"])
    apis = {name.removesuffix("Error") for name in document["components"]["schemas"]}
    assert apis == {"Native", "Tei", "Cohere", "OpenAI"}
    assert read(get(router, "/models"))["data"][0]["score_space"] == space


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"index": "/index"}, "no search index"), ({"truncate": "left"}, "found left")],
)
def test_settings_of_an_embedding_model_are_refused(artifact, settings, message):
    """The start fails with the reason."""
    with pytest.raises(SettingsError, match=message):
        build_router(EmbedderSettings(artifact=str(artifact.folder), **settings))


def test_a_reranker_starts_without_the_engine(artifact):
    """Only a reranker imports the module of rerankers, and it imports no engine."""
    program = (
        "import sys; from embedder.core.settings import EmbedderSettings;"
        "from embedder.application import build_router;"
        "assert 'embedder.core.reranker' not in sys.modules;"
        f"build_router(EmbedderSettings(artifact={str(artifact.folder)!r}));"
        "assert 'embedder.core.engine' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
