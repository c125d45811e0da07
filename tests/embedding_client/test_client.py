"""The blocking client, against answers made here and against a real model."""

import base64
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedding_client import (
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

URL = "https://abc.lambda-url.eu-west-1.on.aws"
NO_WAIT = RetryPolicy(base=0)
SPACE = "model@1/int8/abc/2"


def vector_of(text):
    return np.array([len(text), ord(text[0])], "<f4")


def embeds(request):
    """Answers as the endpoint does: two numbers that tell the text."""
    texts = json.loads(request.content)["texts"]
    rows = [base64.b64encode(vector_of(text).tobytes()).decode() for text in texts]
    return httpx.Response(200, json={"embeddings": rows, "vector_space": SPACE})


def made(answer, **options):
    http = httpx.Client(transport=httpx.MockTransport(answer))
    return EmbeddingClient(
        URL, auth=httpx.Auth(), retries=options.pop("retries", NO_WAIT), http_client=http, **options
    )


def refused(status, code=None, message="no", headers=None, **more):
    body = {"error": message, "code": code, "field": None, **more}
    return httpx.Response(status, json=body, headers={"x-request-id": "r-1", **(headers or {})})


def test_lists_of_any_length_are_split_and_come_back_in_order():
    """A thousand texts in requests of seven, four at once: row i is of text i."""
    requests = []

    def answer(request):
        requests.append(len(json.loads(request.content)["texts"]))
        return embeds(request)

    texts = [chr(65 + number % 50) * (1 + number % 9) for number in range(1000)]
    with made(answer, limits=BatchLimits(texts=7)) as client:
        vectors = client.embed(texts)
    assert np.array_equal(vectors, np.stack([vector_of(text) for text in texts]))
    assert max(requests) == 7
    assert sum(requests) == 1000


def test_no_texts_no_request():
    """Nothing in, nothing out."""
    with made(lambda _: pytest.fail("nothing should be sent")) as client:
        assert client.embed([], dimensions=5).shape == (0, 5)


def test_no_more_requests_at_once_than_allowed():
    """Concurrency is bounded."""
    lock, running, most = threading.Lock(), [0], [0]
    gate = threading.Barrier(3, timeout=120)

    def answer(request):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        gate.wait()
        with lock:
            running[0] -= 1
        return embeds(request)

    with made(answer, concurrency=3, limits=BatchLimits(texts=1)) as client:
        client.embed(["a"] * 12)
    assert most[0] == 3


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(status):
    """Overload and faults of the moment are retried."""
    answers = iter([refused(status), refused(status)])
    with made(lambda request: next(answers, None) or embeds(request)) as client:
        assert len(client.embed(["a"])) == 1


def test_a_dropped_connection_is_tried_again():
    """So is a request that got no answer."""
    faults = iter([httpx.ConnectError("x"), httpx.ReadTimeout("x")])

    def answer(request):
        for fault in faults:
            raise fault
        return embeds(request)

    with made(answer) as client:
        assert len(client.embed(["a"])) == 1


def test_attempts_end():
    """After the last attempt the last answer is the error."""
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


def test_no_answer_at_all_is_told():
    """The message names the endpoint and the reason."""

    def answer(request):
        raise httpx.ConnectError("connection refused")

    with (
        made(answer, retries=RetryPolicy(base=0, attempts=2)) as client,
        pytest.raises(UnreachableError, match=r"on\.aws did not respond in 2 attempts: connection"),
    ):
        client.embed(["a"])


@pytest.mark.parametrize("code", ["batch_too_large", "body_too_large", "out_of_time"])
def test_what_is_too_much_is_halved(code):
    """A request that is refused for its size goes again in two halves, and those again."""

    def answer(request):
        too_many = len(json.loads(request.content)["texts"]) > 2
        return refused(503 if code == "out_of_time" else 413, code) if too_many else embeds(request)

    texts = ["a", "bb", "ccc", "dddd", "eeeee", "f", "gg"]
    with made(answer) as client:
        assert np.array_equal(client.embed(texts), np.stack([vector_of(text) for text in texts]))


def test_what_lambda_itself_refuses_for_its_size_is_halved():
    """AWS's own 413 has no code."""

    def answer(request):
        if len(json.loads(request.content)["texts"]) > 1:
            return httpx.Response(413, json={"message": "Request must be smaller than"})
        return embeds(request)

    with made(answer) as client:
        assert len(client.embed(["a", "b", "c"])) == 3


def test_a_text_too_long_alone_is_an_error():
    """One text cannot be halved."""
    with (
        made(lambda _: refused(413, "input_too_long", "300 tokens; 256 allowed")) as client,
        pytest.raises(RequestError, match="300 tokens") as caught,
    ):
        client.embed(["a"])
    assert (caught.value.status, caught.value.code) == (413, "input_too_long")
    assert caught.value.request_id == "r-1"


def test_awss_own_refusals_are_told():
    """A 403 from IAM has AWS's words and type."""
    body = {"message": "The request signature we calculated does not match"}
    headers = {"x-amzn-errortype": "InvalidSignatureException"}
    with (
        made(lambda _: httpx.Response(403, json=body, headers=headers)) as client,
        pytest.raises(ForbiddenError, match="signature we calculated") as caught,
    ):
        client.health()
    assert caught.value.code == "InvalidSignatureException"


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, content=b"not json"),
        httpx.Response(200, json=[1]),
        httpx.Response(200, json={"embeddings": [], "vector_space": "x"}),
        httpx.Response(200, json={"embeddings": ["%%%"], "vector_space": "x"}),
        httpx.Response(200, json={"embeddings": ["AAA="], "vector_space": "x"}),
        httpx.Response(501, content=b"<html>"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error(answer):
    """Nothing but the endpoint's own answers becomes vectors."""
    with made(lambda _: answer) as client, pytest.raises(ServiceError):
        client.embed(["a"])


def spaces(*names):
    remaining = iter(names)

    def answer(request):
        value = json.loads(embeds(request).content)
        return httpx.Response(200, json={**value, "vector_space": next(remaining)})

    return answer


def test_two_vector_spaces_are_not_mixed():
    """A release that changes the model in the middle of a run is noticed."""
    answer = spaces("m@1/int8/a/384", "m@2/int8/b/384")
    with (
        made(answer, limits=BatchLimits(texts=1), concurrency=1) as client,
        pytest.raises(VectorSpaceError, match=r"m@2/int8/b/384.*m@1/int8/a/384"),
    ):
        client.embed(["a", "b"])


def test_an_expected_vector_space_is_held():
    """Vectors that do not belong to the stored ones are refused at the first answer."""
    with (
        made(spaces("m@2/int8/b/384"), vector_space="m@1/int8/a/384") as client,
        pytest.raises(VectorSpaceError),
    ):
        client.embed(["a"])


def test_dimensions_of_one_space_may_differ_from_call_to_call():
    """But not from an expected space that names its dimensions."""
    with made(spaces("m@1/int8/a/384", "m@1/int8/a/128")) as client:
        client.embed(["a"])
        client.embed(["a"])
        assert client.vector_space == "m@1/int8/a/128"
    with (
        made(spaces("m@1/int8/a/128"), vector_space="m@1/int8/a/384") as client,
        pytest.raises(VectorSpaceError),
    ):
        client.embed(["a"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("text", "found one string. Use embed_one"),
        (["a", 5], "found int at position 1"),
        (["a", " \n"], "blank; found ' \\\\n' at position 1"),
        (["\ud800"], "lone surrogate at position 0"),
    ],
)
def test_what_is_no_text_is_refused_before_it_is_sent(texts, message):
    """The message says where it stands."""
    with (
        made(lambda _: pytest.fail("nothing should be sent")) as client,
        pytest.raises(ConfigurationError, match=message),
    ):
        client.embed(texts)


@pytest.mark.parametrize(
    "url", ["abc.lambda-url.eu-west-1.on.aws", "ftp://x", "https://x/?a=b", ""]
)
def test_a_url_that_is_none_is_refused(url):
    """The message shows what one looks like."""
    with pytest.raises(ConfigurationError, match="must look like https://<id>"):
        EmbeddingClient(url)


def test_options_are_checked():
    """A type of numbers that does not exist, and two ways to choose the prompt."""
    with made(embeds) as client:
        with pytest.raises(ConfigurationError, match="float32, int8, uint8, binary, ubinary"):
            client.embed(["a"], dtype="float16")
        with pytest.raises(ConfigurationError, match="prompt or input_type, not both"):
            client.embed(["a"], prompt="query", input_type="query")


def test_a_stream_is_read_as_it_is_embedded():
    """An endless stream of texts gives vectors without end."""
    texts = (chr(65 + number % 26) for number in iter(int, 1))
    with made(embeds, limits=BatchLimits(texts=5)) as client:
        parts = client.iter_embed(texts)
        assert [len(next(parts)) for _ in range(4)] == [5, 5, 5, 5]


def test_one_text_answered_by_lambdas_own_413_is_an_error():
    """One text has no halves: it is sent once, and the error names its position."""
    sent = []

    def answer(request):
        sent.append(json.loads(request.content)["texts"])
        if "long" in sent[-1]:
            return httpx.Response(413, json={"message": "Request must be smaller than 6291456"})
        return embeds(request)

    with made(answer) as client, pytest.raises(RequestError, match="smaller than") as caught:
        client.embed(["a", "b", "long", "d"])
    assert caught.value.position == 2
    assert sent.count(["long"]) == 1


def test_one_text_that_is_out_of_time_is_tried_again():
    """It cannot be halved, and another attempt may have more time."""
    answers = iter([refused(503, "out_of_time")])
    with made(lambda request: next(answers, None) or embeds(request)) as client:
        assert len(client.embed(["a"])) == 1


def picky(request):
    """Refuses the first text with more than 5 letters as the endpoint does."""
    for position, text in enumerate(json.loads(request.content)["texts"]):
        if len(text) > 5:
            said = f'"texts[{position}]" has {len(text)} tokens; the model allows 5.'
            return refused(400, "input_too_long", said, field="texts")
    return embeds(request)


def test_a_refused_text_is_named_by_its_position_in_the_call():
    """Not by its position in the request that happened to hold it."""
    texts = [*("a" * 150), "too long", *("b" * 49)]
    with (
        made(picky, limits=BatchLimits(texts=64)) as client,
        pytest.raises(RequestError, match=r'^"texts\[150\]" has 8 tokens') as caught,
    ):
        client.embed(texts)
    assert (caught.value.position, caught.value.code) == (150, "input_too_long")
    assert caught.value.reason == '"texts[150]" has 8 tokens; the model allows 5.'


def test_a_field_that_names_a_text_is_corrected_too():
    """`field` counts as `position` does."""

    def answer(request):
        texts = json.loads(request.content)["texts"]
        at = texts.index("bad") if "bad" in texts else None
        return embeds(request) if at is None else refused(400, "x", field=f"texts[{at}]")

    with (
        made(answer, limits=BatchLimits(texts=4), concurrency=1) as client,
        pytest.raises(RequestError) as caught,
    ):
        client.embed([*"abcdef", "bad"])
    assert (caught.value.field, caught.value.position) == ("texts[6]", 6)


def test_a_refusal_that_names_no_text_is_narrowed_down():
    """Where the message does not say which text is too long, halves find it."""

    def answer(request):
        reply = picky(request)
        return reply if reply.status_code == 200 else refused(400, "input_too_long", "too long")

    with made(answer) as client, pytest.raises(RequestError, match="too long") as caught:
        client.embed([*"abcde", "too long", *"fgh"])
    assert caught.value.position == 5


def test_refused_texts_do_not_end_a_stream_of_parts():
    """Each part holds its vectors and its refusals; together they are all texts, in order."""
    texts = [letter * (9 if number % 7 == 0 else 2) for number, letter in enumerate("abcdefgh" * 9)]
    with made(picky, limits=BatchLimits(texts=10)) as client:
        parts = list(client.iter_parts(iter(texts)))
    assert [part.count for part in parts] == [10] * 7 + [2]
    refused_at = [10 * number + at for number, part in enumerate(parts) for at in part.refused]
    assert refused_at == list(range(0, 72, 7))
    assert [e.position for part in parts for e in part.refused.values()] == refused_at
    vectors = np.concatenate([part.vectors for part in parts])
    kept = [text for text in texts if len(text) < 9]
    assert np.array_equal(vectors, np.stack([vector_of(text) for text in kept]))


def test_a_part_may_be_refused_as_a_whole():
    """It has no vectors then."""
    with made(picky) as client:
        (part,) = client.iter_parts(["too long", "much too long"])
    assert (part.count, sorted(part.refused), part.vectors.size) == (2, [0, 1], 0)


def test_a_refusal_that_is_about_no_text_ends_a_stream_of_parts():
    """A permission that is missing is nobody's row."""
    with made(lambda _: refused(403, message="Forbidden")) as client, pytest.raises(ForbiddenError):
        list(client.iter_parts(["a", "b"]))


def test_a_text_of_a_stream_that_is_blank_is_named_by_its_position():
    """Counted from the start of the stream."""
    with made(embeds) as client, pytest.raises(ConfigurationError, match="at position 2"):
        list(client.iter_embed(iter(["a", "b", " "])))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_no_numbers_are_refused(number):
    """NaN and infinity would spoil every comparison that they are part of."""
    rows = [np.array(row, "<f4").tobytes() for row in ([1, 2], [3, number])]
    body = {"embeddings": [base64.b64encode(row).decode() for row in rows], "vector_space": SPACE}
    with (
        made(lambda _: httpx.Response(200, json=body)) as client,
        pytest.raises(ServiceError, match="embedding 1 holds NaN or infinity"),
    ):
        client.embed(["a", "b"])


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1e999"])
def test_scores_that_are_no_numbers_are_refused(score):
    """JSON has no such numbers, and Python's reader takes them all the same."""
    body = '{"results": [{"text": "a", "index": 0, "score": %s}], "vector_space": "m@1/x/2"}'
    with (
        made(lambda _: httpx.Response(200, content=body % score)) as client,
        pytest.raises(ServiceError, match="a score is NaN or infinity"),
    ):
        client.similar("a")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_explained(status):
    """The message says where to, and why it is not followed."""
    answer = httpx.Response(status, headers={"location": "https://login.example.com/start"})
    with made(lambda _: answer) as client, pytest.raises(ServiceError) as caught:
        client.embed(["a"])
    assert "redirects to https://login.example.com/start" in str(caught.value)
    assert "does not follow redirects" in str(caught.value)
    assert caught.value.status == status


def test_a_redirect_to_nowhere_is_explained():
    """Without a Location there is none to name."""
    with (
        made(lambda _: httpx.Response(302)) as client,
        pytest.raises(ServiceError, match="redirects without a Location header"),
    ):
        client.health()


def test_bodies_are_sent_as_json():
    """Requests with a body name its type; requests without one name none."""
    types = {}

    def answer(request):
        types[request.method] = request.headers.get("content-type")
        return embeds(request) if request.method == "POST" else httpx.Response(200, json={})

    with made(answer) as client:
        client.embed(["a"])
        client.health()
    assert types == {"POST": "application/json", "GET": None}


def test_closing_ends_what_waits_to_be_sent_again():
    """A call that waits for a retry in another thread ends with an error."""
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
    assert asked.wait(30)
    client.close()
    caller.join(30)
    assert raised == [f"The client for {URL} is closed."]


def test_a_context_closes_the_client():
    """After the block it sends nothing."""
    with made(embeds) as client:
        client.embed(["a"])
    with pytest.raises(UnreachableError, match="is closed"):
        client.embed(["a"])


class Compressed(BaseHTTPRequestHandler):
    """Answers with gzip to a client that accepts it; the answer to "damaged" is damaged."""

    def do_POST(self):
        """Answers `POST /`."""
        assert "gzip" in self.headers["accept-encoding"]
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["texts"]
        rows = [base64.b64encode(vector_of(text).tobytes()).decode() for text in texts]
        body = gzip.compress(json.dumps({"embeddings": rows, "vector_space": SPACE}).encode())
        if texts == ["damaged"]:
            body = b"no gzip" + body
        self.send_response(200)
        self.send_header("content-encoding", "gzip")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Keeps quiet."""


def test_compressed_answers_are_read():
    """An endpoint may compress its answers; a damaged one is an error of this package."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Compressed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        retries = RetryPolicy(base=0, attempts=2)
        with EmbeddingClient(url, auth=httpx.Auth(), retries=retries) as client:
            assert np.array_equal(client.embed(["abc"]), [vector_of("abc")])
            with pytest.raises(UnreachableError, match="did not respond in 2 attempts"):
                client.embed(["damaged"])
        server.shutdown()


TEXTS = [f"{word} number {number}" for number in range(40) for word in ("kettle", "Köln", "日本")]


@pytest.fixture(scope="module")
def whole(running):
    with EmbeddingClient(running.url) as client:
        return client.embed(TEXTS)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(size=st.integers(1, 50), concurrency=st.integers(1, 6))
def test_split_requests_are_one_request(running, whole, size, concurrency):
    """However a list is split, a real model gives each text the same vector."""
    limits = BatchLimits(texts=size)
    with EmbeddingClient(running.url, limits=limits, concurrency=concurrency) as client:
        assert np.allclose(client.embed(TEXTS), whole, atol=1e-4)


@pytest.mark.parametrize(("dtype", "kind"), [("int8", np.int8), ("uint8", np.uint8)])
def test_whole_numbers_come_as_arrays(client, running, dtype, kind):
    """One byte a component."""
    vectors = client.embed(["a", "b"], dtype=dtype)
    assert (vectors.shape, vectors.dtype) == ((2, running.dimensions), kind)


def test_bits_come_packed(client, running):
    """Eight components a byte, the first the highest bit: numpy's own packing."""
    floats = client.embed(TEXTS[:5])
    bits = client.embed(TEXTS[:5], dtype="ubinary")
    assert bits.shape == (5, running.dimensions // 8)
    assert np.array_equal(bits, np.packbits(floats > 0, axis=1))
    assert np.array_equal(client.embed(TEXTS[:5], dtype="binary").view(np.uint8), bits ^ 0x80)


def test_long_texts_are_refused_or_cut(client):
    """A text over the model's limit is refused with the limit told, and cut where that is asked."""
    long = "word " * 400
    with pytest.raises(RequestError, match="256") as caught:
        client.embed([long])
    assert caught.value.code == "input_too_long"
    assert not np.allclose(
        client.embed_one(long + "end", truncate="right"),
        client.embed_one(long + "end", truncate="left"),
    )


def test_an_image_without_an_index_says_so(client):
    """Searching needs one."""
    with pytest.raises(RequestError, match="no search index") as caught:
        client.similar("anything")
    assert caught.value.status == 404


def test_the_endpoint_tells_about_itself(client, running):
    """Model, vector space and limits."""
    assert client.health()["status"] == "ok"
    assert client.info()["dimensions"] == [running.dimensions]
