"""An index of S3 Vectors behind `POST /similar`, with the stand-in as the service."""

import json
from collections.abc import Callable
from typing import Any

import botocore.session
import numpy as np
import pytest
from botocore.awsrequest import AWSRequest
from jsonschema import Draft202012Validator

from embedder.application import build_router
from embedder.aws_lambda.snapshot import after_restore, before_snapshot
from embedder.core.engine import Engine
from embedder.core.errors import SettingsError, StartError
from embedder.core.reranker import Reranker
from embedder.core.s3_vectors import SPACE_TAG, S3VectorsIndex, open_index, parse_arn
from embedder.core.search import DenseIndex
from embedder.core.settings import EmbedderSettings
from embedder.http.apis.operation import ServedModel
from embedder.http.router import Router
from embedder.http.telemetry import Telemetry
from tests.embedder.calls import get, post, read
from tests.fixtures.s3_vectors.indexes import Index
from tests.fixtures.s3_vectors.server import CREDENTIALS, Failure
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.reranker_models import write_reranker

TEXTS = [f"entry {number}" for number in range(30)]
METADATA = [{"number": number, "even": number % 2 == 0} for number in range(30)]

Load = Callable[..., Index]
OpenWith = Callable[[Engine, Index], S3VectorsIndex]


@pytest.fixture(autouse=True)
def credentials_and_no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("embedder.core.s3_vectors.time.sleep", lambda _: None)


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()


@pytest.fixture
def loaded(load: Load, engine: Engine) -> Index:
    return load(engine, TEXTS, METADATA)


@pytest.fixture
def router(engine: Engine, loaded: Index, open_with: OpenWith) -> Router:
    return Router(ServedModel(engine, open_with(engine, loaded)))


def similar(router: Router, status: int = 200, **body: Any) -> Any:
    return read(post(router, "/similar", {"text": "entry 7", **body}), status)


def test_the_answer_has_text_id_score_and_metadata(router):
    """The form is that of a local index; the score is 1 minus the distance."""
    answer = similar(router, num_results=3)
    assert answer["results"][0] == {
        "text": "entry 7",
        "index": None,
        "id": "id-7",
        "score": pytest.approx(1, abs=1e-6),
        "metadata": {"number": 7, "even": False},
    }
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 3
    assert answer["vector_space"].endswith("/32")
    assert len(similar(router)["results"]) == 10


def test_a_local_index_finds_the_same(router, engine):
    """Over the same vectors, the exact stand-in and the local index agree to rounding."""
    vectors = engine.embed(TEXTS)
    local = Router(ServedModel(engine, DenseIndex(TEXTS, vectors.vectors, vectors.vector_space)))
    for text in ("entry 3", "entry", "something else"):
        from_service = similar(router, text=text, top=30)["results"]
        from_image = similar(local, text=text, top=30)["results"]
        assert [result["text"] for result in from_service] == [
            result["text"] for result in from_image
        ]
        np.testing.assert_allclose(
            [result["score"] for result in from_service],
            [result["score"] for result in from_image],
            atol=1e-6,
        )


def test_a_filter_is_passed_on(router, s3_vectors):
    """Only entries with matching metadata are returned."""
    where = {"$and": [{"even": True}, {"number": {"$gte": 20}}]}
    results = similar(router, top=30, filter=where)["results"]
    assert sorted(result["metadata"]["number"] for result in results) == [20, 22, 24, 26, 28]
    assert s3_vectors.calls[-1][1]["filter"] == where


def test_a_wrong_filter_is_refused_before_anything_is_embedded(router, s3_vectors):
    """The error is a 400 that names the mistake and the operators."""
    error = similar(router, 400, filter={"number": {"$near": 1}})
    assert error["code"] == "invalid_field"
    assert "$nin, $exists, $and, $or" in error["error"]
    assert s3_vectors.calls == []


def test_a_filter_that_only_s3_vectors_can_refuse_is_a_400(router):
    """The text is not filterable, which is known to S3 Vectors only; its message is not shown."""
    error = similar(router, 400, filter={"text": "entry 7"})
    assert error["field"] == "filter"
    assert "S3 Vectors does not accept this" in error["error"]
    assert "Invalid query filter" not in error["error"]


def search(router: Router, status: int = 200, **body: Any) -> Any:
    return read(post(router, "/search", {"query": "entry 7", "mode": "hybrid", **body}), status)


def test_s3_vectors_fuses_the_searches_of_mode_hybrid(router, loaded, s3_vectors):
    """In one request, with the scores of the searches that found an entry; dense is the default."""
    loaded.text_search["text"] = "ACTIVE"
    best, *rest = search(router, top_k=5)["results"]
    assert (best["id"], best["ranks"]) == ("id-7", {})
    assert [*best["scores"]] == ["dense", "sparse", "fused"]
    assert best["scores"]["dense"] == pytest.approx(1, abs=1e-6)
    assert best["scores"]["sparse"] == loaded._bm25([*loaded.vectors], "text", "entry 7")["id-7"]
    assert best["score"] == best["scores"]["fused"] == pytest.approx(2 / 61)
    assert all(result["score"] < best["score"] for result in rest)
    (query,) = (request for name, request in s3_vectors.calls if name == "QueryVectors")
    assert query["queryTexts"] == [{"metadataKey": "text", "text": "entry 7"}]
    assert len(query["queryVector"]["float32"]) == 32
    for mode in ({}, {"mode": "dense"}):
        read(post(router, "/search", {"query": "entry 7", **mode}), 200)
        assert "queryTexts" not in s3_vectors.calls[-1][1]


def test_a_hybrid_search_finds_words_that_the_vectors_do_not(engine, load, open_with):
    """Here, a code that one of many entries has, which has no score of a dense search."""
    texts = [*(f"entry {number}" for number in range(60)), "something about xk9q altogether"]
    index = load(engine, texts)
    index.text_search["text"] = "ACTIVE"
    router = Router(ServedModel(engine, open_with(engine, index)))
    results = search(router, query="entry xk9q", candidates=2, top_k=2)["results"]
    assert {"id-60"} < {result["id"] for result in results}
    assert all("fused" in result["scores"] for result in results)


@pytest.mark.parametrize("filters_text", [True, False])
def test_a_filter_limits_a_hybrid_search(router, loaded, monkeypatch, filters_text):
    """Also if S3 Vectors would limit the vectors alone: it may be what a caller is limited to."""
    loaded.text_search["text"] = "ACTIVE"
    if not filters_text:
        monkeypatch.setattr(type(loaded), "_kept", lambda self, _: list(self.vectors))
    results = search(router, filter={"number": {"$gte": 28}}, top_k=30, candidates=30)["results"]
    assert {result["metadata"]["number"] for result in results} == {28, 29}


@pytest.mark.parametrize(
    ("index", "body", "problem"),
    [
        (({}, "ENHANCED"), {}, "with full-text search of its texts"),
        (({"text": "BUILDING"}, "ENHANCED"), {}, "with full-text search of its texts"),
        (({"title": "ACTIVE"}, "ENHANCED"), {}, "with full-text search of its texts"),
        (({"text": "ACTIVE"}, "CLASSIC"), {}, "must be in the mode ENHANCED"),
        (({"text": "ACTIVE"}, "ENHANCED"), {"filter": {"text": "x"}}, "must be filterable"),
        (
            ({"text": "ACTIVE"}, "ENHANCED"),
            {"query": "x" * 1025},
            "to 1,024 characters; found 1,025",
        ),
        (({"text": "ACTIVE"}, "ENHANCED"), {"mode": "sparse"}, 'one of "dense", "hybrid"; found'),
    ],
)
def test_a_hybrid_search_that_cannot_be_is_a_400(router, loaded, index, body, problem):
    """It says what the index needs; a dense search is as before."""
    loaded.text_search, loaded.mode = index
    error = search(router, 400, **body)
    assert error["field"] == ("query" if "query" in body else "mode")
    assert problem in error["error"]
    assert search(router, mode="dense")["results"]


def test_more_results_than_a_page_are_collected(engine, load, open_with, s3_vectors):
    """A search of many results follows the pages up to their number."""
    index = load(engine, [f"text {number}" for number in range(1200)])
    results = similar(Router(ServedModel(engine, open_with(engine, index))), top=1100)["results"]
    assert len({result["id"] for result in results}) == 1100
    assert len(s3_vectors.calls) == 1 + 3


@pytest.mark.parametrize(("wanted", "fits"), [(10_000, True), (10_001, False), (0, False)])
def test_as_many_results_as_aws_allows(router, wanted, fits):
    """S3 Vectors returns up to 10,000 results since June 2026."""
    if fits:
        assert len(similar(router, num_results=wanted)["results"]) == 30
    else:
        assert "a whole number from 1 to 10000" in similar(router, 400, num_results=wanted)["error"]


def test_an_index_may_have_shorter_vectors_and_no_texts(engine, open_with, s3_vectors):
    """It is searched with Matryoshka vectors of its length."""
    index = s3_vectors.create("docs", 8, tags={SPACE_TAG: engine.vector_space(8)})
    index.put([{"key": "k", "data": {"float32": [1.0] * 8}}])
    answer = similar(Router(ServedModel(engine, open_with(engine, index))))
    assert answer["vector_space"] == engine.vector_space(8)
    (result,) = answer["results"]
    assert (result["text"], result["id"], result["metadata"]) == (None, "k", {})


def test_an_index_without_vectors_is_not_found_until_it_is_loaded(engine, open_with, s3_vectors):
    """A fresh index is a 404 that says what to do, and the first load changes that."""
    index = s3_vectors.create("docs", 32)
    router = Router(ServedModel(engine, open_with(engine, index)))
    error = similar(router, 404)
    assert error["code"] == "no_index"
    assert "docs/search.md says how" in error["error"]
    index.tags[SPACE_TAG] = engine.vector_space()
    assert similar(router)["results"] == []


def test_a_foreign_vector_space_is_refused_at_start(engine, s3_vectors):
    """The start fails, and the error has both spaces."""
    index = s3_vectors.create("docs", 32, tags={SPACE_TAG: "other@1/fp32/x/32"})
    with pytest.raises(StartError, match="other@1/fp32/x/32; the model serves small-model@abc123"):
        open_index(index.arn, endpoint=s3_vectors.url, spaces=[engine.vector_space()])


def test_the_setting_makes_the_endpoint_search_the_index(minilm_artifact, load, s3_vectors):
    """With EMBEDDING_VECTOR_INDEX, `/similar` searches S3 Vectors, also next to a local index."""
    texts = ["Parse a string into a datetime.", "Open a socket."]
    index = load(Engine.load(minilm_artifact), texts)
    settings = EmbedderSettings(
        artifact=minilm_artifact.folder,
        index="a folder that is not there",
        vector_index=index.arn,
        s3_vectors_endpoint=s3_vectors.url,
    )
    router = build_router(settings)
    router.telemetry = None
    results = similar(router, text="parse a date")["results"]
    assert [result["text"] for result in results] == texts
    assert results[0]["score"] > 0.5 > results[1]["score"]
    router.model.search_index.forget()


@pytest.mark.parametrize("failure", [Failure(403), Failure(404), Failure(429)])
def test_a_service_that_does_not_answer_stops_no_start(engine, loaded, s3_vectors, failure):
    """The endpoint also embeds, so it starts; the first search checks the index."""
    s3_vectors.failures = [failure] * 6
    index = open_index(loaded.arn, endpoint=s3_vectors.url, spaces=[engine.vector_space()])
    s3_vectors.failures = []
    assert similar(Router(ServedModel(engine, index)))["results"]
    index.forget()


def test_a_foreign_vector_space_is_refused_at_query(engine, open_with, s3_vectors):
    """An index that was loaded with another model's vectors after the start is not searched."""
    index = s3_vectors.create("docs", 32, tags={SPACE_TAG: "other@1/fp32/x/32"})
    error = similar(Router(ServedModel(engine, open_with(engine, index))), 500)
    assert error["code"] == "index_of_another_vector_space"
    assert "other@1/fp32/x/32" in error["error"]
    assert [name for name, _ in s3_vectors.calls] == ["ListTagsForResource"]


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (Failure(403, "AccessDeniedException"), 500, "index_failed"),
        (Failure(404, "NotFoundException"), 500, "index_failed"),
        (Failure(400, "ValidationException"), 500, "index_failed"),
        (Failure(429, "TooManyRequestsException"), 503, "index_unavailable"),
        (Failure(500, "InternalServerException"), 503, "index_unavailable"),
        (Failure(drop=True), 503, "index_unavailable"),
    ],
)
def test_an_error_of_s3_vectors_shows_no_internals(router, s3_vectors, failure, status, code):
    """Callers learn whether to try again, and the next request works once the fault is gone."""
    for _ in ("before the vector space is known", "after"):
        s3_vectors.failures = [failure] * 12
        response = post(router, "/similar", {"text": "entry 7"})
        assert response.headers.get("retry-after") == ("1" if status == 503 else None)
        error = read(response, status)
        assert error["code"] == code
        assert "secret internals" not in error["error"]
        assert "arn:" not in error["error"]
        s3_vectors.failures = []
        assert similar(router)["results"]


def test_the_log_names_the_kind_of_error(engine, router, s3_vectors, capsys):
    """An operator sees which call failed and how, and no text."""
    router.telemetry = Telemetry(EmbedderSettings(artifact="a"))
    router.model.search_index.prepare(None)
    s3_vectors.failures = [Failure(403, "AccessDeniedException")]
    similar(router, 500)
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert line["fault"]["type"] == "AccessDeniedError"
    assert line["searchMs"] > 0
    assert "entry" not in json.dumps(line)


def test_the_document_describes_the_filter(router):
    """Answers and requests conform to the OpenAPI document of an endpoint with such an index."""
    post_ = read(get(router, "/openapi.json"))["paths"]["/similar"]["post"]
    body = Draft202012Validator(post_["requestBody"]["content"]["application/json"]["schema"])
    assert body.is_valid({"text": "a", "filter": {"$or": [{"a": 1}, {"b": {"$in": ["c"]}}]}})
    assert not body.is_valid({"text": "a", "filter": {"$or": [{"a": 1}, {"b": {"$like": "c"}}]}})
    answer = post_["responses"]["200"]["content"]["application/json"]["schema"]
    Draft202012Validator(answer).validate(similar(router))
    assert read(get(router, "/info"))["index_entries"] is None


def test_a_snapshot_carries_no_connection(router, s3_vectors):
    """After the snapshot's hook, a restored copy connects anew."""
    similar(router)
    before_snapshot(router)
    after_restore(router)
    similar(router)
    assert s3_vectors.connections == 2


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:s3vectors:eu-central-1:123456789012:bucket/b",
        "arn:aws:s3:eu-central-1:123456789012:bucket/b/index/i",
        "arn:aws:s3vectors::123456789012:bucket/b/index/i",
        "arn:aws:s3vectors:eu-central-1:123456789012:bucket//index/i",
        "docs",
    ],
)
def test_something_else_than_an_index_is_refused(arn):
    """The start fails with the variable, the form and the value."""
    with pytest.raises(SettingsError, match="EMBEDDING_VECTOR_INDEX must be arn:aws:s3vectors"):
        parse_arn(arn)


@pytest.mark.parametrize(
    ("partition", "region"), [("aws", "eu-central-1"), ("aws-cn", "cn-north-1")]
)
def test_the_endpoint_is_botocores(partition, region):
    """The URL of the service is the one of botocore's rules."""
    arn = f"arn:{partition}:s3vectors:{region}:123456789012:bucket/b/index/i"
    client = botocore.session.Session().create_client(
        "s3vectors", region_name=region, aws_access_key_id="a", aws_secret_access_key="b"
    )

    def instead(request: AWSRequest, **_: Any) -> None:
        raise LookupError(request.url)

    client.meta.events.register("request-created", instead)
    with pytest.raises(LookupError, match=f"^{parse_arn(arn)[1]}/GetIndex$"):
        client.get_index(indexArn=arn)


def test_search_filters_and_names_the_source(engine, load, open_with, tmp_path):
    """`POST /search` has a document's key and headings, with which a reranker reads its text.

    It says whose text the reranker lacks.
    """
    metadata = [{"document": "a.md", "headings": "A > B", "even": n % 2 == 0} for n in range(6)]
    metadata[4].pop("headings")
    index = open_with(engine, load(engine, [*TEXTS[:4], "\x01", TEXTS[5]], metadata))
    reranker = Reranker.load(small_artifact(write_reranker(tmp_path / "m")))
    router = Router(ServedModel(engine, index), ServedModel(reranker))
    body = {"query": "entry 3", "filter": {"even": False}}
    answer = read(post(router, "/search", {**body, "rerank": False}))
    assert sorted(result["id"] for result in answer["results"]) == ["id-1", "id-3", "id-5"]
    best = answer["results"][0]
    assert (best["id"], best["source"], best["heading"]) == ("id-3", "a.md", "A > B")
    assert (best["index"], best["ranks"]) == (None, {"dense": 1})
    ranked = read(post(router, "/search", body))["results"]
    passages = [f"A > B\n\n{entry['text']}" for entry in ranked]
    scores = reranker.rerank("entry 3", passages).scores.tolist()
    assert [entry["score"] for entry in ranked] == scores == sorted(scores, reverse=True)
    refused = read(post(router, "/search", {"query": "entry 3"}), 400)
    assert refused["field"] == "rerank"
    assert "The entry 'id-4' of the index has no text" in refused["error"]
