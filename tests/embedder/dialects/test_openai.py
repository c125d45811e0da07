"""OpenAI's dialect."""

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from embedder.rendering import largest_batch
from embedder.service import Service
from tests.embedder.calls import post, read
from tests.embedder.small_model import CLS, PROMPTS, SEP, HashSession, WordTokenizer

MakeService = Callable[..., Service]
PATH = "/v1/embeddings"


def test_the_answer_is_openais(service: Service) -> None:
    """A list of embeddings with their places, the model, and the tokens used."""
    answer = read(post(service, PATH, {"input": ["a", "b c"], "model": "text-embedding-3-small"}))
    assert answer["object"] == "list"
    assert [(item["object"], item["index"]) for item in answer["data"]] == [
        ("embedding", 0),
        ("embedding", 1),
    ]
    assert [len(item["embedding"]) for item in answer["data"]] == [32, 32]
    assert answer["model"] == "example/small-model"
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert answer["vector_space"] == "small-model@abc123/fp32/0123456789ab/32"


@pytest.mark.parametrize(
    "given",
    ["a b", ["a b"], WordTokenizer().encode("a b"), [[CLS, *WordTokenizer().encode("a b"), SEP]]],
)
def test_every_kind_of_input_gives_the_same_vector(service: Service, given: Any) -> None:
    """A string, a list of strings, token ids, a list of lists of token ids."""
    answer = read(post(service, PATH, {"input": given, "model": "m"}))
    expected = read(post(service, "/", {"text": "a b"}))["embedding"]
    assert [item["embedding"] for item in answer["data"]] == [expected]


def test_base64_is_little_endian_float32(service: Service) -> None:
    """What the official client asks for unless told otherwise."""
    body = {"input": ["a", "b"], "model": "m", "dimensions": 8}
    listed = read(post(service, PATH, {**body, "encoding_format": "float"}))
    packed = read(post(service, PATH, {**body, "encoding_format": "base64"}))
    for plain, item in zip(listed["data"], packed["data"], strict=True):
        floats = np.frombuffer(base64.b64decode(item["embedding"]), "<f4")
        assert floats.tolist() == np.float32(plain["embedding"]).tolist()


@pytest.mark.parametrize(
    ("model", "prompt"),
    [
        ("embeddinggemma-300m:query", "query"),
        ("embeddinggemma-300m:document", "document"),
        ("embeddinggemma-300m:Clustering", "Clustering"),
        ("embeddinggemma-300m:clustering", "Clustering"),
        ("a:b:query", "query"),
        (":query", "query"),
    ],
)
def test_a_models_alias_carries_the_prompt(
    make_service: MakeService, model: str, prompt: str
) -> None:
    """For SDKs that can send a model's name and nothing else."""
    service = make_service(prompts=PROMPTS)
    answer = read(post(service, PATH, {"input": "a b", "model": model}))
    by_hand = read(post(service, PATH, {"input": PROMPTS[prompt] + "a b", "model": "m"}))
    assert answer == by_hand


def test_an_alias_of_no_prompt_is_refused(make_service: MakeService) -> None:
    """Rather than embedded without the prompt that was meant."""
    service = make_service(prompts=PROMPTS)
    error = read(post(service, PATH, {"input": "a", "model": "m:latest"}), 400)["error"]
    assert error["param"] == "model"
    assert '"…:query", "…:document"' in error["message"]
    assert 'found "latest" after the colon' in error["message"]
    plain = read(post(make_service(), PATH, {"input": "a", "model": "m:query"}), 400)["error"]
    assert "the model has no prompts" in plain["message"]


def test_extra_fields_serve_those_who_can_send_them(make_service: MakeService) -> None:
    """`prompt_name`, `input_type`, `title`, `output_dtype`, `truncate`."""
    service = make_service(prompts=PROMPTS)
    body = {"input": "a b", "input_type": "document", "title": "T", "output_dtype": "ubinary"}
    answer = read(post(service, PATH, body))
    by_hand = {"text": "title: T | text: a b", "output_dtype": "ubinary"}
    assert answer["data"][0]["embedding"] == read(post(service, "/", by_hand))["embedding"]
    long = {"input": "w " * 40, "truncate": "left"}
    assert read(post(service, PATH, long))["usage"]["prompt_tokens"] == 16


def test_alias_and_field_may_not_disagree(make_service: MakeService) -> None:
    """The prompt may be chosen once."""
    body = {"input": "a", "model": "m:query", "prompt_name": "document"}
    error = read(post(make_service(prompts=PROMPTS), PATH, body), 400)["error"]
    assert 'chosen by "prompt_name" and "model"' in error["message"]


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"model": "m"}, "input", "invalid_field"),
        ({"input": ""}, "input", "empty_input"),
        ({"input": []}, "input", "empty_input"),
        ({"input": ["a", ""]}, "input[1]", "empty_input"),
        ({"input": [[]]}, "input[0]", "empty_input"),
        ({"input": [1, -1]}, "input[1]", "invalid_field"),
        ({"input": [1000]}, "input[0]", "invalid_field"),
        ({"input": [True]}, "input", "invalid_field"),
        ({"input": ["a", 1]}, "input[1]", "invalid_field"),
        ({"input": {"a": 1}}, "input", "invalid_field"),
        ({"input": "a", "dimensions": 100}, "dimensions", "invalid_field"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format", "invalid_field"),
        ({"input": "w " * 40}, "input", "input_too_long"),
        ({"input": "a", "user": 7}, "user", "invalid_field"),
        ({"input": "a", "stream": True}, None, "invalid_field"),
    ],
)
def test_errors_are_openais(service: Service, body: Any, param: str | None, code: str) -> None:
    """400, and the four fields that its clients read."""
    error = read(post(service, PATH, body), 400)
    assert set(error) == {"error"}
    assert set(error["error"]) == {"message", "type", "param", "code"}
    assert error["error"]["type"] == "invalid_request_error"
    assert error["error"]["param"] == param or (param == "input" and code == "invalid_field")
    assert error["error"]["code"] == code


def test_a_server_error_is_openais_too(service: Service, session: HashSession) -> None:
    """500, of the type that its clients retry."""
    session.failure = RuntimeError("boom")
    error = read(post(service, PATH, {"input": "a"}), 500)["error"]
    assert error["type"] == "server_error"
    assert error["param"] is None


def test_a_batch_that_would_not_fit_is_refused_before_the_model(
    service: Service, session: HashSession
) -> None:
    """With the number that would."""
    allowed = largest_batch(32, "float", "float")
    texts = [f"w{number}" for number in range(allowed + 1)]
    error = read(post(service, PATH, {"input": texts}), 400)["error"]
    assert error["code"] == "batch_too_large"
    assert f"room for {allowed} vectors of 32 dimensions" in error["message"]
    assert session.shapes == []
