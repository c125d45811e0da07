"""The OpenAPI document, and the conformance of the router to it."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from embedder import __version__
from embedder.core.engine import Engine
from embedder.http.apis import search
from embedder.http.http_types import MAX_REQUEST_BYTES, Request
from embedder.http.router import ROUTES, Router
from tests.embedder.calls import BODIES, get, read
from tests.embedder.from_schema import any_body, matching
from tests.embedder.small_model import PROMPTS, HashSession, WordTokenizer, manifest_of, router_of

#: Examples for each operation with a body: over 5,000 in total, of which every run tries some.
CASES = 400
SOME_CASES = 30


def make_router(prompts: dict[str, str]) -> Router:
    manifest = manifest_of(prompts=prompts)
    return router_of(Engine(manifest, WordTokenizer(), HashSession(), cache_entries=100))


SERVICES = {"with prompts": make_router(PROMPTS), "without": make_router({})}
DOCUMENTS = {name: read(get(router, "/openapi.json")) for name, router in SERVICES.items()}
OPERATIONS = [
    (path, method) for path, methods in DOCUMENTS["without"]["paths"].items() for method in methods
]
POSTS = [
    path
    for path, method in OPERATIONS
    if method == "post" and "requestBody" in DOCUMENTS["without"]["paths"][path][method]
]


@pytest.mark.parametrize("name", SERVICES)
def test_the_document_is_valid(name):
    """The document is valid under OpenAPI 3.1, and each schema in it under JSON Schema."""
    document = DOCUMENTS[name]
    assert document["openapi"].startswith("3.1")
    validate(document)


def test_the_document_has_every_operation():
    """Every route is in the document under a unique operation id."""
    assert set(OPERATIONS) == {
        (path, method.lower())
        for routes in (ROUTES, search.ROUTES)
        for path, methods in routes.items()
        for method in methods
    }
    names = [
        DOCUMENTS["without"]["paths"][path][method]["operationId"] for path, method in OPERATIONS
    ]
    assert max(Counter(names).values()) == 1


def test_the_document_names_the_model_and_its_version():
    """The document names the model and its revision, so that readers know the vector space."""
    info = DOCUMENTS["without"]["info"]
    assert info["version"] == __version__
    assert "small-model@abc123/fp32/0123456789ab" in info["summary"]


def test_the_document_knows_the_models_limits():
    """Dimensions and prompts are those of the served model."""
    schema, _tei = body_schema("with prompts", "/")["anyOf"]
    assert schema["properties"]["size"]["anyOf"][0]["enum"] == [32, 16, 8]
    assert schema["properties"]["prompt_name"]["anyOf"][0]["enum"] == list(PROMPTS)
    assert body_schema("without", "/")["anyOf"][0]["properties"]["prompt_name"]["type"] == "null"


def body_schema(name: str, path: str) -> dict[str, Any]:
    post = DOCUMENTS[name]["paths"][path]["post"]
    schema: dict[str, Any] = post["requestBody"]["content"]["application/json"]["schema"]
    return schema


def answer_validator(name: str, path: str, method: str, status: int) -> Draft202012Validator:
    """Return a validator for a response body; an undocumented status raises KeyError."""
    document = DOCUMENTS[name]
    content = document["paths"][path][method]["responses"][str(status)]["content"]
    schema = content["application/json"]["schema"]
    # References resolve to the document's components.
    return Draft202012Validator({**schema, "components": document["components"]})


VALIDATORS: dict[tuple[str, str, str, int], Draft202012Validator] = {}
# Strategies and validators are created once, because creating them is slower than one case.
SCHEMAS = {(name, path): body_schema(name, path) for name in SERVICES for path in POSTS}
DRAWN = {key: any_body(schema) for key, schema in SCHEMAS.items()}
ALLOWED = {key: matching(schema) for key, schema in SCHEMAS.items()}
BODY_VALIDATORS = {key: Draft202012Validator(schema) for key, schema in SCHEMAS.items()}


def check(name: str, path: str, method: str, body: Any) -> int:
    """Send a body, check the response against the document, and return its status."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = SERVICES[name].handle(Request(method.upper(), path, body=raw))
    assert response.status != 500, response.body
    key = (name, path, method, response.status)
    if key not in VALIDATORS:
        VALIDATORS[key] = answer_validator(*key)
    VALIDATORS[key].validate(orjson.loads(response.body))
    return response.status


@pytest.mark.parametrize("path", POSTS)
@settings(max_examples=SOME_CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_answer_is_as_the_document_says(path, data):
    """Status and body are documented, no status is 500, and invalid requests are refused."""
    answer_is_documented(path, data)


@pytest.mark.slow
@pytest.mark.parametrize("path", POSTS)
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_answer_of_many_is_as_the_document_says(path, data):
    """The same with more cases."""
    answer_is_documented(path, data)


def answer_is_documented(path: str, data: st.DataObject) -> None:
    """Draw a body, and check the answer and its status against the document."""
    name = data.draw(st.sampled_from(sorted(SERVICES)))
    body = data.draw(DRAWN[name, path])
    if not is_allowed(name, path, body):
        assert 400 <= check(name, path, "post", body) < 500


def is_allowed(name: str, path: str, body: Any) -> bool:
    """Return whether the document allows a body; drawn bytes may hold JSON that it allows."""
    if isinstance(body, bytes):
        try:
            body = json.loads(body)
        except ValueError:
            return False
    return BODY_VALIDATORS[name, path].is_valid(body)


@pytest.mark.parametrize(("path", "method"), [entry for entry in OPERATIONS if entry[1] == "get"])
def test_every_get_is_as_the_document_says(path, method):
    """Operations without a body answer as documented."""
    assert check("with prompts", path, method, b"") == 200


#: Reasons that a schema cannot express: token counts, and fields that exclude each other.
BEYOND_A_SCHEMA = (
    " tokens, special tokens and prompt included",
    "the tokenizer found no token in it",
    '"title" is allowed with a prompt that has a place for it',
    "The prompt may be chosen once",
    "A prompt cannot be put in front of token ids",
    "must hold token ids of this model, as POST /tokenize returns them",
    "`decode` is not available",
    '"candidates" must be at least "top_k"',
    "This endpoint has no reranker",
)


@pytest.mark.parametrize("answer", [[], [[]], [[0.5], []], [["a"]], {}])
def test_the_document_knows_that_vectors_are_not_empty(answer):
    """TEI's response is a list of at least one vector with at least one number."""
    validator = answer_validator("without", "/embed", "post", 200)
    assert validator.is_valid([[0.5]])
    assert not validator.is_valid(answer)


#: Operations that compute embeddings.
EMBEDDING = ("/", "/similar", "/v1/embeddings", "/embed", "/embeddings", "/similarity")


def answered(router: Router, path: str, body: Any, session: HashSession) -> Iterator[int]:
    """Cause every possible error, and yield the statuses of the responses."""

    def ask(body: Any, deadline: float | None = None) -> int:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return router.handle(Request("POST", path, body=raw, deadline=deadline)).status

    long = json.loads(json.dumps(body).replace('"a"', json.dumps("w " * 40)))
    yield ask(body)
    yield ask(b"{")
    yield ask(b" " * (MAX_REQUEST_BYTES + 1))
    yield ask({**body, "unknown": 1})
    yield ask(long)
    yield ask(body, deadline=time.monotonic() - 1)
    session.failure = RuntimeError("of the model")
    yield ask(body)
    session.failure = None
    # An unforeseen exception.
    engine = router.model.loaded
    assert isinstance(engine, Engine)
    engine.embed_request = None  # type: ignore[method-assign]
    yield ask(body)
    del engine.embed_request
    if path == "/similar":
        raw = json.dumps(body).encode()
        yield router_of(engine, None).handle(Request("POST", path, body=raw)).status


@pytest.mark.parametrize("path", [*EMBEDDING, "/api/v1/embed"])
def test_the_statuses_of_the_document_are_those_that_are_answered(path):
    """The documented statuses are exactly those that the router can return."""
    session = HashSession()
    router = router_of(Engine(manifest_of(), WordTokenizer(), session))
    bodies = [BODIES[path], *([{"inputs": "a"}] if path == "/" else [])]  # the second is TEI's
    statuses = {status for body in bodies for status in answered(router, path, body, session)}
    documented = DOCUMENTS["without"]["paths"][path]["post"]["responses"]
    assert statuses == {int(status) for status in documented}


@pytest.mark.parametrize("path", POSTS)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_the_document_allows_is_answered(path, data):
    """A valid body is refused only for a reason that a schema cannot express."""
    name = data.draw(st.sampled_from(sorted(SERVICES)))
    body = data.draw(ALLOWED[name, path])
    response = SERVICES[name].handle(Request("POST", path, body=json.dumps(body).encode()))
    message = response.body.decode().replace('\\"', '"')
    assert response.status == 200 or any(reason in message for reason in BEYOND_A_SCHEMA), message
