"""Test that requests have the wanted number of tokens, counted by a real service."""

import json

import numpy as np
import pytest

from embedder.engine import Engine
from embedder.messages import Request
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of, service_of
from tuning.errors import TuneError
from tuning.requests import make_requests, vectors_of
from tuning.workload import Length, Workload, given_workload


@pytest.fixture
def call():
    """Return a function that sends requests to a service whose limit is 200 tokens a text."""
    manifest = manifest_of(max_tokens=200)
    service = service_of(Engine(manifest, WordTokenizer(), HashSession()), None)

    def call(method, path, body):
        content = b"" if body is None else json.dumps(body).encode()
        response = service.handle(Request(method=method, path=path, body=content))
        assert response.status == 200, response.body
        return json.loads(response.body)

    return call


@pytest.mark.parametrize("tokens", [3, 8, 33, 128, 200])
def test_a_text_has_the_wanted_tokens(call, tokens):
    """As the service counts them, with the special tokens around it."""
    (request,) = make_requests(given_workload((tokens,), texts=1), call)
    assert (request.tokens, request.texts) == (tokens, 1)
    answer = call("POST", "/v1/embeddings", request.body)
    assert answer["usage"]["prompt_tokens"] == tokens
    assert vectors_of(answer).shape == (1, 32)


def test_several_texts_share_the_tokens_and_differ(call):
    """Equal texts of a request would be embedded once."""
    (request,) = make_requests(given_workload((100,), texts=4), call)
    texts = request.body["input"]
    assert (request.tokens, len(texts), len(set(texts))) == (100, 4, 4)


def test_many_tokens_are_divided_by_the_limit(call):
    """The endpoint's longest requests had more texts than the others."""
    workload = Workload(lengths=(Length(500, 1.0),), texts=2, source="test")
    (request,) = make_requests(workload, call)
    assert (request.tokens, request.texts) == (500, 3)


def test_one_text_over_the_limit_is_refused(call):
    """The error names the limit."""
    with pytest.raises(TuneError, match="found: a text of 201 tokens; allowed: up to 200"):
        make_requests(given_workload((201,), texts=1), call)


def test_vectors_are_read_from_base64(call):
    """They are those of the numbers."""
    body = {"input": ["a", "b"], "encoding_format": "base64"}
    numbers = call("POST", "/v1/embeddings", {"input": ["a", "b"]})["data"]
    expected = np.array([row["embedding"] for row in numbers], dtype=np.float32)
    assert np.array_equal(vectors_of(call("POST", "/v1/embeddings", body)), expected)
