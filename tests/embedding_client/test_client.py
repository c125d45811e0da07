"""The blocking client, with mocked responses and with a real model."""

import asyncio
import base64
import gzip
import json
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import httpx2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedding_client import (
    AsyncEmbeddingClient,
    BatchLimits,
    ConfigurationError,
    EmbeddingClient,
    ForbiddenError,
    RequestError,
    RetryPolicy,
    ServiceError,
    ThrottledError,
    UnreachableError,
    VectorSpaceError,
)
from tests.embedding_client.answers import (
    NO_WAIT,
    SPACE,
    URL,
    embedded,
    refused,
    texts_of,
    vector_of,
)
from tests.fixtures.local_server import QuietHandler, serving
from tests.fixtures.waiting import PATIENCE


def made(answer, **options):
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    options = {"auth": httpx2.Auth(), "retries": NO_WAIT, **options}
    return EmbeddingClient(URL, http_client=http, **options)


def test_long_lists_are_split_and_keep_their_order():
    """With a thousand texts in requests of seven, row i is the vector of text i."""
    requests = []

    def answer(request):
        requests.append(len(texts_of(request)))
        return embedded(request)

    texts = [chr(65 + number % 50) * (1 + number % 9) for number in range(1000)]
    with made(answer, limits=BatchLimits(texts=7)) as client:
        vectors = client.embed(texts)
    assert np.array_equal(vectors, np.stack([vector_of(text) for text in texts]))
    assert max(requests) == 7
    assert sum(requests) == 1000


def test_no_texts_send_no_request():
    """The result is an empty array."""
    with made(lambda _: pytest.fail("nothing should be sent")) as client:
        assert client.embed([], dimensions=5).shape == (0, 5)


def test_concurrency_is_limited():
    """No more than `concurrency` requests are in flight."""
    lock, running, most = threading.Lock(), [0], [0]
    gate = threading.Barrier(3, timeout=PATIENCE)

    def answer(request):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        gate.wait()
        with lock:
            running[0] -= 1
        return embedded(request)

    with made(answer, concurrency=3, limits=BatchLimits(texts=1)) as client:
        client.embed(["a"] * 12)
    assert most[0] == 3


def test_temporary_errors_are_retried():
    """They are statuses such as 503, and requests without a response."""
    faults: Iterator[Any] = iter(
        [httpx2.ConnectError("x"), refused(503), httpx2.ReadTimeout("x"), refused(429)]
    )

    def answer(request):
        for fault in faults:
            if isinstance(fault, httpx2.Response):
                return fault
            raise fault
        return embedded(request)

    with made(answer) as client:
        assert len(client.embed(["a"])) == 1


def test_attempts_are_limited():
    """The response of the last attempt is raised as the error."""
    count = []

    def answer(request):
        count.append(1)
        return refused(429, message="Rate Exceeded.")

    with (
        made(answer, retries=RetryPolicy(base=0, attempts=4)) as client,
        pytest.raises(ThrottledError, match="Rate Exceeded"),
    ):
        client.embed(["a"])
    assert len(count) == 4


def test_a_missing_response_is_an_error():
    """The message names the endpoint and the reason."""

    def answer(request):
        raise httpx2.ConnectError("connection refused")

    with (
        made(answer, retries=RetryPolicy(base=0, attempts=2)) as client,
        pytest.raises(UnreachableError, match=r"on\.aws did not respond in 2 attempts: connection"),
    ):
        client.embed(["a"])


@pytest.mark.parametrize(
    "rejection",
    [
        refused(413, "batch_too_large"),
        refused(413, "body_too_large"),
        refused(503, "out_of_time"),
        httpx2.Response(413, json={"message": "Request must be smaller than"}),  # Lambda's own
        httpx2.Response(413, json={"error": {"message": "Too large.", "code": "body_too_large"}}),
    ],
)
def test_a_request_that_is_too_large_is_sent_in_halves(rejection):
    """The client splits a batch, and its halves, until the endpoint accepts them."""

    def answer(request):
        return rejection if len(texts_of(request)) > 2 else embedded(request)

    texts = ["a", "bb", "ccc", "dddd", "eeeee", "f", "gg"]
    with made(answer) as client:
        assert np.array_equal(client.embed(texts), np.stack([vector_of(text) for text in texts]))


def of_lambda(status, message):
    """Return an answer of Lambda itself."""
    headers = {"x-amzn-errortype": "AKind", "x-amzn-requestid": "i-1"}
    return httpx2.Response(status, json={"message": message}, headers=headers)


#: API Gateway's own answers have OpenAI's form on every path.
GATEWAY = httpx2.Response(
    401, json={"error": {"message": "No valid API key.", "param": None, "code": "invalid_api_key"}}
)


@pytest.mark.parametrize(
    ("answer", "kind", "message", "code", "request_id"),
    [
        (refused(413, "too_long", "300 tokens"), RequestError, "300 tokens", "too_long", "r-1"),
        (of_lambda(403, "The signature"), ForbiddenError, "The signature", "AKind", "i-1"),
        (of_lambda(404, "No function"), RequestError, "No function", "AKind", "i-1"),
        (of_lambda(429, "Rate Exceeded."), ThrottledError, "Rate Exceeded", "AKind", "i-1"),
        (GATEWAY, ForbiddenError, "No valid API key", "invalid_api_key", None),
        (
            httpx2.Response(302, headers={"location": "https://login.example.com/start"}),
            ServiceError,
            "redirects to https://login.example.com/start. The client does not follow redirects",
            None,
            None,
        ),
        (httpx2.Response(308), ServiceError, "redirects without a Location header", None, None),
    ],
)
def test_an_answer_is_an_error_of_its_kind(answer, kind, message, code, request_id):
    """Of the endpoint, of Lambda, of API Gateway, or a redirect, with its message and code."""
    with made(lambda _: answer) as client, pytest.raises(kind, match=message) as caught:
        client.embed(["a"])
    error = caught.value
    assert (type(error), error.status) == (kind, answer.status_code)
    assert (error.code, error.request_id) == (code, request_id)


def in_base64(row: list[float]) -> str:
    return base64.b64encode(np.array(row, "<f4").tobytes()).decode()


def embed(client: EmbeddingClient) -> object:
    return client.embed(["a"])


def rerank(client: EmbeddingClient) -> object:
    return client.rerank("q", ["a", "b"])


NOT_NUMBERS = (math.nan, math.inf, -math.inf)
A, B = [{"index": index, "relevance_score": 0.5} for index in (0, 1)]
#: A call, the fields of answers that are none, and the error for each of them.
INVALID: list[tuple[Callable[[EmbeddingClient], object], dict[str, Any], str]] = [
    *(
        (embed, {"embeddings": rows}, "does not hold 1 embeddings")
        for rows in (None, [], [in_base64([1]), in_base64([2])])
    ),
    *((embed, {"embeddings": [text]}, "not base64 of equal length") for text in ("%%%", "AAA=")),
    *((embed, {"embeddings": [in_base64([1, number])]}, "NaN") for number in NOT_NUMBERS),
    # Each passage has a score: without one, it would have no place among the others.
    *(
        (rerank, {"results": results}, "scores")
        for results in ([A], [A, A], [A, {**B, "index": 2}], [A, {"index": 1}])
    ),
    *((rerank, {"results": [A, {**B, "relevance_score": n}]}, "scores") for n in NOT_NUMBERS),
    *(
        (
            lambda client: client.similar("a"),
            {"results": [{"text": "a", "index": 0, "score": number}]},
            "a score is NaN or infinity",
        )
        for number in NOT_NUMBERS
    ),
    # Each weight has its token.
    *(
        (lambda client: client.embed_sparse(["a"]), {"embeddings": rows}, "sparse vectors")
        for rows in (
            [],
            [{"indices": [1, 2], "values": [0.5]}],
            [{"indices": [-1], "values": [0.5]}],
            [{"indices": [1]}],
        )
    ),
]


@pytest.mark.parametrize(("call", "fields", "message"), INVALID)
def test_an_invalid_response_is_an_error(call, fields, message):
    """Python's JSON parser accepts NaN and Infinity, although JSON does not have them."""
    body = {**fields, "vector_space": SPACE, "score_space": SPACE}
    answer = httpx2.Response(200, content=json.dumps(body))
    with made(lambda _: answer) as client, pytest.raises(ServiceError, match=message):
        call(client)


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(200, content=b"not json"),
        httpx2.Response(200, json=[1]),
        httpx2.Response(501, content=b"<html>"),
    ],
)
def test_a_response_that_is_no_object_is_an_error(answer):
    """It is of another server."""
    with made(lambda _: answer) as client, pytest.raises(ServiceError):
        embed(client)


@pytest.mark.parametrize(
    ("logits", "order"),
    [
        ({}, [3, 1, 0, 2]),
        ({"a": 0.0, "b": 2.2, "e": -2.2}, [3, 1, 0, 2]),
        ({"a": 0.0, "c": 0.1}, [3, 1, 2, 0]),
    ],
)
def test_passages_of_equal_scores_have_the_order_of_their_logits(logits, order):
    """Without logits they stay in theirs; also those of several requests, the best first."""
    scores = {"a": 0.5, "b": 0.9, "c": 0.5, "d": 0.95, "e": 0.1}

    def answer(request):
        results = [
            {"index": place, "relevance_score": scores[text]}
            | ({"logit": logits[text]} if text in logits else {})
            for place, text in enumerate(texts_of(request))
        ]
        return httpx2.Response(200, json={"results": results, "score_space": "m@1/int8/a"})

    with made(answer, limits=BatchLimits(texts=2)) as client:
        ranked = client.rerank("q", list(scores), top_k=4)
    assert [one.index for one in ranked] == order


@pytest.mark.parametrize(
    ("expected", "spaces", "message"),
    [
        (None, ["m@1/int8/a/384", "m@2/int8/b/384"], r"m@2/int8/b/384.*m@1/int8/a/384"),
        ("m@1/int8/a/384", ["m@2/int8/b/384"], r"m@2/int8/b/384.*m@1/int8/a/384"),
        ("m@1/int8/a/384", ["m@1/int8/a/128"], r"m@1/int8/a/128.*m@1/int8/a/384"),
        (None, ["m@1/int8/a/384", "m@1/int8/a/128"], None),
        ("m@1/int8/a", ["m@1/int8/a/384", "m@1/int8/a/128"], None),
    ],
)
def test_vector_spaces_are_not_mixed(expected, spaces, message):
    """Only the dimensions may differ, unless the expected space includes them."""
    remaining = iter(spaces)

    def answer(request):
        value = json.loads(embedded(request).content)
        return httpx2.Response(200, json={**value, "vector_space": next(remaining)})

    with (
        made(answer, vector_space=expected) as client,
        pytest.raises(VectorSpaceError, match=message) if message else nullcontext(),
    ):
        for _ in spaces:
            client.embed(["a"])
            assert client.vector_space in spaces


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("text", "found one string. Use embed_one"),
        (["a", 5], "found int at position 1"),
        (["a", " \n"], "blank; found ' \\\\n' at position 1"),
        (["\ud800"], "lone surrogate at position 0"),
    ],
)
def test_invalid_texts_are_refused_before_they_are_sent(texts, message):
    """The message contains the position of the text."""
    with (
        made(lambda _: pytest.fail("sent"), limits=BatchLimits(texts=1)) as client,
        pytest.raises(ConfigurationError, match=message),
    ):
        client.embed(texts)


@pytest.mark.parametrize(
    "url", ["abc.lambda-url.eu-west-1.on.aws", "ftp://x", "https://x/?a=b", ""]
)
def test_an_invalid_url_is_refused(url):
    """The message shows a valid URL."""
    with pytest.raises(ConfigurationError, match="must look like https://<id>"):
        EmbeddingClient(url)


def test_options_are_checked():
    """Unknown options and values are refused, and options that exclude each other."""
    with made(embedded) as client:
        with pytest.raises(ConfigurationError, match="float32, int8, uint8, binary, ubinary"):
            client.embed(["a"], dtype="float16")
        with pytest.raises(ConfigurationError, match="prompt or input_type, not both"):
            client.embed(["a"], prompt="query", input_type="query")
        with pytest.raises(TypeError, match="unknown option 'size'; the options are prompt, "):
            client.embed(["a"], size=3)


def test_a_single_text_that_lambda_rejects_is_an_error():
    """The client sends it once, and the error has its position."""
    sent = []

    def answer(request):
        sent.append(texts_of(request))
        if "long" in sent[-1]:
            return httpx2.Response(413, json={"message": "Request must be smaller than 6291456"})
        return embedded(request)

    with made(answer) as client, pytest.raises(RequestError, match="smaller than") as caught:
        client.embed(["a", "b", "long", "d"])
    assert caught.value.position == 2
    assert sent.count(["long"]) == 1


def test_a_single_text_that_is_out_of_time_is_retried():
    """It cannot be split, and the next attempt may have more time."""
    answers = iter([refused(503, "out_of_time")])
    with made(lambda request: next(answers, None) or embedded(request)) as client:
        assert len(client.embed(["a"])) == 1


def picky(request):
    """Refuse the first text with more than 5 letters as the endpoint does."""
    for position, text in enumerate(texts_of(request)):
        if len(text) > 5:
            message = f'"texts[{position}]" has {len(text)} tokens; the model allows 5.'
            return refused(400, "input_too_long", message, field="texts")
    return embedded(request)


def test_the_error_has_the_position_of_the_text_in_the_call():
    """It is not the position in the request."""
    texts = [*("a" * 150), "too long", *("b" * 49)]
    with (
        made(picky, limits=BatchLimits(texts=64)) as client,
        pytest.raises(RequestError, match=r'^"texts\[150\]" has 8 tokens') as caught,
    ):
        client.embed(texts)
    assert (caught.value.position, caught.value.code) == (150, "input_too_long")
    assert caught.value.reason == '"texts[150]" has 8 tokens; the model allows 5.'


def test_the_field_has_the_position_of_the_text_in_the_call():
    """`field` and `position` are equal."""

    def answer(request):
        texts = texts_of(request)
        at = texts.index("bad") if "bad" in texts else None
        return embedded(request) if at is None else refused(400, "x", field=f"texts[{at}]")

    with (
        made(answer, limits=BatchLimits(texts=4), concurrency=1) as client,
        pytest.raises(RequestError) as caught,
    ):
        client.embed([*"abcdef", "bad"])
    assert (caught.value.field, caught.value.position) == ("texts[6]", 6)


def test_an_error_without_a_position_is_located():
    """If the message does not name the text that is too long, splitting the batch finds it."""

    def answer(request):
        reply = picky(request)
        return reply if reply.status_code == 200 else refused(400, "input_too_long", "too long")

    with made(answer) as client, pytest.raises(RequestError, match="too long") as caught:
        client.embed([*"abcde", "too long", *"fgh"])
    assert caught.value.position == 5


def test_all_texts_of_a_part_may_be_refused():
    """The part then has no vectors."""
    with made(picky) as client:
        (part,) = client.iter_parts(["too long", "much too long"])
    assert (part.count, sorted(part.refused), part.vectors.size) == (2, [0, 1], 0)


def test_an_error_that_is_not_about_one_text_ends_a_stream_of_parts():
    """A missing permission is raised."""
    with made(lambda _: refused(403, message="Forbidden")) as client, pytest.raises(ForbiddenError):
        list(client.iter_parts(["a", "b"]))


def test_the_error_for_a_blank_text_has_its_position_in_the_stream():
    """Positions are counted from the start of the stream."""
    with made(embedded) as client, pytest.raises(ConfigurationError, match="at position 2"):
        list(client.iter_embed(iter(["a", "b", " "])))


def test_bodies_are_sent_as_json():
    """Only requests with a body have a content type."""
    types = {}

    def answer(request):
        types[request.method] = request.headers.get("content-type")
        return embedded(request) if request.method == "POST" else httpx2.Response(200, json={})

    with made(answer) as client:
        client.embed(["a"])
        client.health()
    assert types == {"POST": "application/json", "GET": None}


def test_closing_cancels_requests_that_wait_for_a_retry():
    """The call in the other thread raises an error."""
    asked = threading.Event()
    raised = []

    def answer(request):
        asked.set()
        return refused(503, headers={"retry-after": "100"})

    client = made(answer)

    def call():
        try:
            client.embed(["a"])
        except UnreachableError as error:
            raised.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    assert asked.wait(PATIENCE)
    client.close()
    caller.join(PATIENCE)
    assert raised == [f"The client for {URL} is closed."]


def test_a_context_closes_the_client():
    """A call after the block raises an error."""
    with made(embedded) as client:
        client.embed(["a"])
    with pytest.raises(UnreachableError, match="is closed"):
        client.embed(["a"])


class Compressed(QuietHandler):
    """Responds with gzip to a client that accepts it. The response to "damaged" is invalid."""

    def respond(self):
        """Respond to `POST /`."""
        assert "gzip" in self.headers["accept-encoding"]
        request = httpx2.Request("POST", "http://f", content=self.read_body())
        damage = b"no gzip" if texts_of(request) == ["damaged"] else b""
        body = damage + gzip.compress(embedded(request).content)
        self.answer(200, body, content_encoding="gzip")


def test_compressed_responses_are_read():
    """Invalid gzip data raises an error of this package."""
    retries = RetryPolicy(base=0, attempts=2)
    with (
        serving(Compressed) as url,
        EmbeddingClient(url, auth=httpx2.Auth(), retries=retries) as client,
    ):
        assert np.array_equal(client.embed(["abc"]), [vector_of("abc")])
        with pytest.raises(UnreachableError, match="did not respond in 2 attempts"):
            client.embed(["damaged"])


class Closing(httpx2.Auth):
    """Closes the client after a request began, before it has a connection."""

    client: Any

    def auth_flow(self, request):
        """Close the blocking client."""
        self.client.close()
        yield request

    async def async_auth_flow(self, request):
        """Close the asynchronous client."""
        await self.client.aclose()
        yield request


@pytest.mark.parametrize("kind", [EmbeddingClient, AsyncEmbeddingClient])
def test_a_request_that_begins_during_close_leaves_no_connection(kind):
    """The server sees the end of the connection once the request has its response."""
    ended = threading.Event()

    class Handler(Compressed):
        def finish(self):
            super().finish()
            ended.set()

    with serving(Handler) as url:
        auth = Closing()
        auth.client = client = kind(url, auth=auth)
        answer = client.embed_one("abc")
        found = answer if kind is EmbeddingClient else asyncio.run(answer)
        assert np.array_equal(found, vector_of("abc"))
        assert ended.wait(PATIENCE)


TEXTS = [f"{word} number {number}" for number in range(40) for word in ("kettle", "Köln", "日本")]


@pytest.fixture(scope="module")
def whole(running):
    with EmbeddingClient(running.url) as client:
        return client.embed(TEXTS)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(size=st.integers(1, 50), concurrency=st.integers(1, 6))
def test_the_size_of_requests_does_not_change_vectors(running, whole, size, concurrency):
    """A real model returns the same vectors for any split of a list."""
    limits = BatchLimits(texts=size)
    with EmbeddingClient(running.url, limits=limits, concurrency=concurrency) as client:
        assert np.allclose(client.embed(TEXTS), whole, atol=1e-4)


def test_integers_have_a_byte_and_bits_are_packed(client, running):
    """Eight components per byte, the first in the highest bit, as `numpy.packbits`."""
    for dtype in (np.int8, np.uint8):
        vectors = client.embed(["a", "b"], dtype=dtype.__name__)
        assert (vectors.shape, vectors.dtype) == ((2, running.dimensions), dtype)
    floats = client.embed(TEXTS[:5])
    bits = client.embed(TEXTS[:5], dtype="ubinary")
    assert bits.shape == (5, running.dimensions // 8)
    assert np.array_equal(bits, np.packbits(floats > 0, axis=1))
    assert np.array_equal(client.embed(TEXTS[:5], dtype="binary").view(np.uint8), bits ^ 0x80)


def test_a_client_may_be_closed_while_its_first_request_begins(monkeypatch):
    """Another thread may do so at any moment, here between two statements."""
    client = made(lambda _: httpx2.Response(200, json={"status": "ok"}))
    real = weakref.finalize

    def overtaken(*arguments):
        client.close()
        return real(*arguments)

    monkeypatch.setattr(weakref, "finalize", overtaken)
    assert client.health() == {"status": "ok"}
    with pytest.raises(UnreachableError, match="is closed"):
        client.health()
