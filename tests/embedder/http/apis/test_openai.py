"""OpenAI's API."""

import gzip
import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from embedder.core.artifact import Golden
from embedder.core.engine import Engine
from embedder.http.apis.operation import ServedModel
from embedder.http.http_types import MAX_RESPONSE_BYTES, Request, Response
from embedder.http.router import Router
from embedder.http.vector_encoding import largest_batch
from tests.embedder.calls import get, post, read
from tests.embedder.small_model import CLS, PROMPTS, SEP, HashSession, WordTokenizer, manifest_of

MakeRouter = Callable[..., Router]
PATH = "/v1/embeddings"
#: Token ids of "a b", without and with special tokens; `/tokenize` returns the second form.
BARE = WordTokenizer().encode("a b")
WITH_SPECIALS = [CLS, *BARE, SEP]


@pytest.mark.parametrize(
    "body",
    [
        *({"input": given} for given in ("a b", ["a b"], WITH_SPECIALS, [WITH_SPECIALS])),
        {"input": BARE, "add_special_tokens": True},
    ],
)
def test_every_kind_of_input_gives_the_same_vector(router, body):
    """A string, a list of strings, token ids and a list of token id lists are equivalent."""
    answer = read(post(router, PATH, {**body, "model": "m"}))
    expected = read(post(router, "/", {"text": "a b"}))["embedding"]
    assert [item["embedding"] for item in answer["data"]] == [expected]
    assert answer["id"] == "request-1"


@pytest.mark.parametrize(
    ("model", "prompt"),
    [
        ("embeddinggemma-300m:query", "query"),
        ("embeddinggemma-300m:document", "document"),
        ("embeddinggemma-300m:Clustering", "Clustering"),
        ("embeddinggemma-300m:clustering", "Clustering"),
        ("a:b:query", "query"),
        (":query", "query"),
        # Ollama's tags and OpenAI's names of fine-tuned models have colons.
        *((name, None) for name in ("all-minilm:latest", "ft:small:org::id", "a:", ":")),
        ("small-model-2:v1", None),
        ("m" * 256, None),
    ],
)
def test_a_models_alias_carries_the_prompt(make_router, router, model, prompt):
    """SDKs that can only send a model name can select a prompt in it; other names are names."""
    body = {"input": "a b", "model": model}
    by_hand = {"input": PROMPTS.get(prompt or "", "") + "a b", "model": "m"}
    of_prompts = make_router(prompts=PROMPTS)
    assert read(post(of_prompts, PATH, body)) == read(post(of_prompts, PATH, by_hand))
    plain = read(post(router, PATH, {"input": "a b", "model": "m"}))
    assert read(post(router, PATH, body)) == plain


@pytest.mark.parametrize("name", ["example/small-model", "small-model", "Small-Model"])
def test_the_served_model_with_a_suffix_that_is_no_prompt_is_refused(make_router, name):
    """A misspelled prompt name is refused instead of being ignored."""
    router = make_router(prompts=PROMPTS)
    error = read(post(router, PATH, {"input": "a", "model": f"{name}:qurey"}), 400)["error"]
    assert error["param"] == "model"
    assert f'"{name}:query", "{name}:document"' in error["message"]
    assert 'found "qurey" after the colon' in error["message"]


@pytest.mark.parametrize(
    ("given", "name", "found"),
    [
        (BARE, "input", f"found {BARE[0]} and {BARE[-1]}"),
        ([WITH_SPECIALS, BARE], "input[1]", f"found {BARE[0]} and {BARE[-1]}"),
        ([WITH_SPECIALS[:-1]], "input[0]", f"found {CLS} and {BARE[-1]}"),
        (WITH_SPECIALS[1:], "input", f"found {BARE[0]} and {SEP}"),
    ],
)
def test_token_ids_without_the_models_special_tokens_are_refused(
    router, session, given, name, found
):
    """The ids may come from another tokenizer; the error explains both ways to fix the request."""
    error = read(post(router, PATH, {"input": given}), 400)["error"]
    assert error["param"] == "input"
    assert error["code"] == "invalid_field"
    assert error["message"].startswith(f'"{name}" must hold token ids of this model')
    assert f"{CLS} at the beginning and {SEP} at the end" in error["message"]
    assert found in error["message"]
    assert "check_embedding_ctx_length=False" in error["message"]
    assert '"add_special_tokens": true' in error["message"]
    assert session.shapes == []
    assert read(post(router, PATH, {"input": given, "add_special_tokens": True}))


class WithoutSpecialTokens(WordTokenizer):
    """A tokenizer without special tokens."""

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()


def test_a_model_without_special_tokens_takes_ids_only_on_request(session):
    """Such ids do not show which tokenizer produced them."""
    router = Router(ServedModel(Engine(manifest_of(), WithoutSpecialTokens(), session)))
    error = read(post(router, PATH, {"input": BARE}), 400)["error"]
    assert "none at the beginning and none at the end" in error["message"]
    assert read(post(router, PATH, {"input": BARE, "add_special_tokens": True}))


@pytest.mark.parametrize("path", [PATH, "/embeddings"])
def test_an_id_over_the_vocabulary_names_the_fix(router, path):
    """The id comes from another tokenizer."""
    response = post(router, path, {"input": [[CLS, 73418, SEP]]})
    message = response.body.decode()
    assert response.status in {400, 422}
    assert "a whole number from 0 to 999; found the number 73418." in message
    assert "check_embedding_ctx_length=False" in message


def test_extra_fields_serve_those_who_can_send_them(make_router):
    """`prompt_name`, `input_type`, `title`, `output_dtype` and `truncate` are accepted."""
    router = make_router(prompts=PROMPTS)
    body = {"input": "a b", "input_type": "document", "title": "T", "output_dtype": "ubinary"}
    answer = read(post(router, PATH, body))
    by_hand = {"text": "title: T | text: a b", "output_dtype": "ubinary"}
    assert answer["data"][0]["embedding"] == read(post(router, "/", by_hand))["embedding"]
    long = {"input": "w " * 40, "truncate": "left"}
    assert read(post(router, PATH, long))["usage"]["prompt_tokens"] == 16


def test_alias_and_field_may_not_disagree(make_router):
    """A prompt in the model name and another in a field are refused."""
    body = {"input": "a", "model": "m:query", "prompt_name": "document"}
    error = read(post(make_router(prompts=PROMPTS), PATH, body), 400)["error"]
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
        ({"input": "a", "model": "m" * 257}, "model", "invalid_field"),
        ({"input": "a", "stream": True}, None, "invalid_field"),
    ],
)
def test_errors_are_openais(router, body, param, code):
    """Errors have status 400 and the four fields that OpenAI's clients read."""
    error = read(post(router, PATH, body), 400)
    assert set(error) == {"error"}
    assert set(error["error"]) == {"message", "type", "param", "code"}
    assert error["error"]["type"] == "invalid_request_error"
    assert error["error"]["param"] == param or (param == "input" and code == "invalid_field")
    assert error["error"]["code"] == code


def test_a_server_error_is_openais_too(router, session):
    """The error has status 500 and the type that OpenAI's clients retry."""
    session.failure = RuntimeError("boom")
    error = read(post(router, PATH, {"input": "a"}), 500)["error"]
    assert error["type"] == "server_error"
    assert error["param"] is None


@pytest.mark.parametrize(
    ("head", "runtime", "runs"),
    [
        ((0.1, -0.2), "onnxruntime", False),
        ((0.1, 0.0), "onnxruntime", True),
        ((0.1, -0.2), "numpy", True),
    ],
)
def test_different_vectors_that_never_fit_are_refused_before_the_model(
    wide, session, head, runtime, runs
):
    """Of a static model, or with a 0 in golden vectors, they may take less; the answer decides."""
    engine = wide.model.loaded
    graph = engine.manifest.graph._replace(runtime=runtime)
    engine.manifest = engine.manifest._replace(golden=(Golden("a", None, head),), graph=graph)
    # The tokenizer has fewer ids than there are texts.
    texts = [f"{text} {ending}" for text in TEXTS[:50] for ending in TEXTS[50:90]]
    message = read(ask(wide, {"input": texts}, "gzip"), 400)["error"]["message"]
    said = r'"input" holds \d+ different inputs; an answer has room for the vectors of 125\d\. '
    assert bool(re.match(said + "Split the request, or ask for .*base64", message)) is not runs
    assert bool(session.shapes) is runs
    # Equal vectors take next to nothing in gzip.
    few = [text for text in TEXTS[:16] for _ in range(125)]
    assert ask(wide, {"input": few}, "gzip").status == 200


@pytest.mark.parametrize("path", [PATH, "/embeddings"])
def test_infinitys_fields_are_taken(router, path):
    """Its clients send `modality`, and 0 as the number of all dimensions."""
    fields = {"input": "a b", "model": "default/not-specified"}
    plain = read(post(router, path, fields))["data"]
    infinitys = {**fields, "modality": "text", "dimensions": 0}
    assert read(post(router, path, infinitys))["data"] == plain
    for field, value in (("modality", "image"), ("dimensions", False), ("dimensions", -1)):
        refused = post(router, path, {**fields, field: value})
        assert f'\\"{field}\\" must be' in refused.body.decode()


def ask(router: Router, body: Any, accepted: str | None) -> Response:
    headers = {} if accepted is None else {"accept-encoding": accepted}
    raw = orjson.dumps(body)
    return router.handle(Request("POST", PATH, headers=headers, body=raw, id="request-1"))


@pytest.fixture
def wide(make_router: MakeRouter, session: HashSession) -> Router:
    """Return a router for a model with 768 dimensions that can be reduced to 384."""
    session.dimensions = 768
    return make_router(dimensions=(768, 384))


TEXTS = [f"w{number}" for number in range(2048)]


def test_openais_largest_batch_is_answered_in_gzip(wide):
    """A client that accepts gzip gets 2,048 vectors of 384 floats."""
    body = {"input": TEXTS, "dimensions": 384, "encoding_format": "float"}
    response = ask(wide, body, "gzip, deflate")
    assert response.status == 200
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["vary"] == "accept-encoding"
    answer = orjson.loads(gzip.decompress(response.body))
    assert len(answer["data"]) == 2048
    full_size = read(post(wide, PATH, {"input": TEXTS[:2], "dimensions": 384}))
    assert answer["data"][:2] == full_size["data"]


def test_without_gzip_it_is_refused_with_the_numbers(wide):
    """The error has the size found, the size allowed, the batch size that fits, and two fixes."""
    body = {"input": TEXTS, "dimensions": 384, "encoding_format": "float"}
    message = read(ask(wide, body, None), 400)["error"]["message"]
    numbers = re.search(
        r"of 2048 vectors of 384 .* takes (\d+) bytes; at most (\d+) .*about (\d+)", message
    )
    assert numbers is not None
    assert int(numbers[1]) > int(numbers[2]) == MAX_RESPONSE_BYTES
    assert '"accept-encoding: gzip"' in message
    assert f"which has room for {largest_batch(384, 'float', 'base64')}." in message
    assert '"encoding_format": "base64" where the path takes it (/ and /v1/embeddings)' in message
    assert read(ask(wide, {**body, "input": TEXTS[: int(numbers[3])]}, None))
    assert read(ask(wide, {**body, "encoding_format": "base64"}, None))


def test_what_does_not_fit_in_gzip_is_refused_with_the_numbers(wide):
    """A batch of 2,045 vectors of 768 floats is refused even with gzip."""
    body = {"input": TEXTS[:2045], "dimensions": 768}
    message = read(ask(wide, body, "gzip"), 400)["error"]["message"]
    numbers = re.search(
        r"takes (\d+) bytes in gzip; at most \d+ are allowed. Send about (\d+)", message
    )
    assert numbers is not None
    assert int(numbers[1]) > MAX_RESPONSE_BYTES
    assert '"encoding_format": "base64"' in message
    assert ask(wide, {**body, "input": TEXTS[: int(numbers[2]) - 20]}, "gzip").status == 200


@pytest.mark.parametrize(
    "options", [{"input": TEXTS[:200], "encoding_format": "base64"}, {"input": "a"}]
)
def test_what_gzip_would_not_make_smaller_is_left_as_it_is(wide, options):
    """Base64 vectors do not compress, and a single vector is sent uncompressed for speed."""
    assert "content-encoding" not in ask(wide, options, "gzip").headers


def test_the_one_model_is_listed(router):
    """The list has OpenAI's format, and clients can read the model name from it; or infinity's."""
    (infinitys,) = read(get(router, "/models"))["data"]
    assert (infinitys["id"], infinitys["stats"]) == ("example/small-model", {})
    assert "owned_by" not in infinitys
    assert read(get(router, "/v1/models")) == {
        "object": "list",
        "data": [
            {
                "id": "example/small-model",
                "object": "model",
                "created": 0,
                "owned_by": "example",
                "vector_space": "small-model@abc123/fp32/0123456789ab/32",
            }
        ],
    }
