"""Routing, and behavior that is common to all APIs."""

import re

import pytest

from embedder.http.http_types import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, Request
from embedder.http.router import ROUTES, new_request_id
from tests.embedder.calls import BODIES, get, post, read
from tests.embedder.small_model import CLS, SEP

#: Without the one that the small model's tokenizer cannot serve.
POSTS = sorted(path for path, methods in ROUTES.items() if "POST" in methods and path != "/decode")
GETS = sorted(path for path, methods in ROUTES.items() if "GET" in methods)
#: Paths that compute embeddings and name the vector space in the response.
EMBEDS = sorted(set(POSTS) - {"/tokenize"})


@pytest.mark.parametrize("path", POSTS)
def test_a_good_request_is_answered(make_router, path):
    """With a header that names the vector space of vectors, so that clients do not mix two."""
    response = post(make_router(index=["a", "b"]), path, BODIES[path])
    read(response)
    space = "small-model@abc123/fp32/0123456789ab/32" if path in EMBEDS else None
    assert response.headers.get("x-vector-space") == space


def test_no_path_embeds_token_ids_of_another_model(make_router, session):
    """Every path that takes token ids refuses those without the model's special tokens."""
    router = make_router(index=["a", "b"])
    session.shapes.clear()
    fields = [(path, field) for path in EMBEDS for field in ("text", "texts", "input", "inputs")]
    for path, field in fields:
        assert post(router, path, {field: [[15, 19]]}).status in {400, 422}, path
    assert session.shapes == []
    taken = [(p, f) for p, f in fields if post(router, p, {f: [[CLS, 15, 19, SEP]]}).status == 200]
    assert taken == [
        ("/", "inputs"),
        ("/api/v1/embed", "inputs"),
        ("/embed", "inputs"),
        ("/embeddings", "input"),
        ("/v1/embeddings", "input"),
    ]


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"text": NaN}',
        b"{}",
        b'{"text": 1, "input": 1, "inputs": 1}',
        b'{"inputs": "", "input": "", "text": ""}',
        b'{"input": "\\ud800", "inputs": "\\ud800", "text": "\\ud800"}',
        b'{"input": "\xff", "inputs": "\xff", "text": "\xff"}',
    ],
)
def test_a_bad_body_never_reaches_the_model(make_router, session, path, body):
    """Every API answers an invalid body with a client error in JSON."""
    router = make_router(index=["a", "b"])
    session.shapes.clear()
    response = post(router, path, body)
    assert 400 <= response.status < 500
    read(response, response.status)
    assert session.shapes == []


@pytest.mark.parametrize("path", POSTS)
def test_a_body_over_six_megabytes_is_refused(router, path):
    """The error gives the size found and the size allowed, in bytes."""
    response = post(router, path, b" " * (MAX_REQUEST_BYTES + 1))
    assert response.status == 413
    assert (
        f"has {MAX_REQUEST_BYTES + 1} bytes; at most {MAX_REQUEST_BYTES}" in response.body.decode()
    )


@pytest.mark.parametrize("path", POSTS)
def test_a_wrong_method_gets_the_allowed_ones(router, path):
    """The response is a 405 with HTTP's `allow` header."""
    response = get(router, path)
    assert response.status == 405
    assert response.headers["allow"] == "POST"
    assert r"served by POST; found \"GET\"" in response.body.decode()


@pytest.mark.parametrize("method", ["get", "ÄÖ", "\ud800", "x" * 100, ""])
def test_an_odd_method_is_a_wrong_one(router, method):
    """Any other method name gets a 405, even in a handwritten event."""
    assert read(router.handle(Request(method, "/", id="request-1")), 405)["code"] == "wrong_method"


@pytest.mark.parametrize("path", GETS)
def test_a_get_answers_without_a_body(router, path):
    """HEAD, which load balancers send, is GET without the body; POST is refused."""
    answer = get(router, path)
    read(answer)
    head = router.handle(Request("HEAD", path, id="request-1"))
    assert (head.status, head.body, head.headers) == (200, b"", answer.headers)
    assert post(router, path, {}).headers["allow"] == "GET, HEAD"


def test_an_unknown_path_gets_the_existing_ones(router):
    """The 404 lists every path with its method; under /v1 it has OpenAI's format."""
    error = read(get(router, "/v2/embed"), 404)
    assert error["code"] == "unknown_path"
    assert "POST /, POST /similar, GET /health" in error["error"]
    assert read(get(router, "/v1/files"), 404)["error"]["code"] == "unknown_path"
    assert "by `embed chunk FILE`" in read(post(router, "/chunk", {"text": "a"}), 404)["error"]


@pytest.mark.parametrize("path", ["/v1/embeddings/", "/embed/", "/api/v1/embed//"])
def test_a_slash_at_the_end_is_the_same_path(router, path):
    """Clients join paths with and without a slash at the end."""
    read(post(router, path, BODIES[path.rstrip("/")]))


@pytest.mark.parametrize("path", EMBEDS)
def test_a_failing_model_is_a_server_error_without_its_inside(make_router, session, path):
    """The response is a 500 (TEI: 424) without details of the failure."""
    router = make_router(index=["a", "b"])
    session.failure = RuntimeError("/var/task/artifact is broken")
    response = post(router, path, BODIES[path])
    tei = path in {"/embed", "/embeddings", "/similarity"}
    error = read(response, 424 if tei else 500)
    assert "broken" not in str(error)
    assert "could not embed this request" in str(error)


def test_an_answer_that_would_not_fit_is_refused(make_router):
    """Lambda would answer a bare 502; quotes count twice because they are escaped in the event."""
    router = make_router(max_tokens=10**7)
    fitting = post(router, "/tokenize", {"inputs": "a " * 70_000})
    assert fitting.status == 200
    message = read(post(router, "/tokenize", {"inputs": "a " * 85_000}), 422)["error"]
    size = re.fullmatch(r"The answer takes (\d+) bytes; at most (\d+) are allowed\. .*", message)
    assert size is not None
    assert int(size[1]) > int(size[2]) == MAX_RESPONSE_BYTES
    # The body would fit if it were not escaped.
    assert len(fitting.body) / 70_000 * 85_000 < MAX_RESPONSE_BYTES


def test_a_request_without_an_id_gets_one(router):
    """The id has the format of Lambda's ids and is unique."""
    response = router.handle(Request("GET", "/health"))
    assert re.fullmatch(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", response.headers["x-request-id"]
    )
    assert new_request_id() != new_request_id()


@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
def test_no_answer_has_a_header_of_cors(router, method):
    """The Function URL adds the headers if configured, and browsers reject duplicates."""
    headers = {"origin": "https://example.com", "access-control-request-method": "POST"}
    response = router.handle(Request(method, "/", headers=headers, body=b'{"text": "a"}'))
    assert response.status == (200 if method == "POST" else 405)
    assert not [name for name in response.headers if name.startswith("access-control-")]
