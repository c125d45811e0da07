"""HTTP around the router: the same answers as Lambda's, bounds, and clients that misbehave."""

import gzip
import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from embedder.http.http_types import MAX_REQUEST_BYTES, Request
from embedder.http.router import ROUTES
from embedder.server import app, http_protocol
from tests.embedder.calls import BODIES
from tests.embedder.server.running import GatedSession, Running, bearer, busy, keys_of, running
from tests.embedder.small_model import HashSession
from tests.fixtures.waiting import PATIENCE, wait_until

#: What differs between two answers to one request: ids and times.
VARYING = {"x-request-id", "x-compute-time", "x-total-time", "x-tokenization-time"}
VARYING |= {"x-queue-time", "x-inference-time", "date", "content-length"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(entries=("a", "b")) as server:
        yield server


@pytest.mark.parametrize(
    ("method", "path"), sorted((m, p) for p, methods in ROUTES.items() for m in methods)
)
def test_every_path_is_answered_as_on_lambda(server, method, path):
    """Status, headers and body are the same, but for ids and times, and no start is cold."""
    body = json.dumps(BODIES.get(path, {"inputs": "a"})).encode() if method == "POST" else b""
    expected = server.router.handle(Request(method, path, body=body, id="1"))
    answer = httpx2.request(
        method,
        server.url + path,
        content=body,
        headers={"accept-encoding": "identity", "x-request-id": "1"},
        timeout=PATIENCE,
    )
    assert answer.status_code == expected.status
    bodies = [answer.content, expected.body]
    if path == "/api/v1/embed":
        bodies = [{**json.loads(body), "timings": None} for body in bodies]
    assert bodies[0] == bodies[1]
    headers = {name: value for name, value in answer.headers.items() if name not in VARYING}
    assert headers == {k: v for k, v in expected.headers.items() if k not in VARYING}


@pytest.mark.parametrize("path", ["/live", "/ready", "/health"])
def test_a_load_balancer_gets_its_200(path):
    """All answer without a key."""
    with running(keys=keys_of("ada")) as server:
        assert server.get(path).status_code == 200
        head = httpx2.head(server.url + path, timeout=PATIENCE)
        assert (head.status_code, head.content) == (200, b"")


def test_metrics_are_for_callers_with_a_key():
    """They have the names of all callers, and count requests by key, API and status."""
    with running(keys=keys_of("ada")) as server:
        server.post("/v1/embeddings", {"model": "m", "input": ["a b", "c"]}, headers=bearer("ada"))
        server.post("/embed", {"inputs": "one"})
        refused = server.get("/metrics")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        answer = server.get("/metrics", headers=bearer("ada"))
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for labels in (
        'api="openai",key="ada",operation="create_embeddings",status="200"',
        'api="tei",key="",operation="none",status="401"',
    ):
        assert f"embedding_requests_total{{{labels}}} 1.0" in answer.text


def test_the_clients_request_id_is_kept(server):
    """It is in the answer; one that is too long for a log is replaced."""
    assert server.get("/health", headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    new_id = server.get("/health", headers={"x-request-id": "x" * 200}).headers["x-request-id"]
    assert len(new_id) == 36


def test_gzip_goes_both_ways(server):
    """A body in gzip is inflated, and a large answer is compressed for who asks for it."""
    body = gzip.compress(json.dumps({"inputs": [f"text {n}" for n in range(200)]}).encode())
    answer = server.post("/embed", body, headers={"content-encoding": "gzip"})
    assert (len(answer.json()), answer.headers["content-encoding"]) == (200, "gzip")
    bomb = gzip.compress(b" " * (MAX_REQUEST_BYTES + 1))
    refused = server.post("/embed", bomb, headers={"content-encoding": "gzip"})
    assert refused.status_code == 413


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_six_megabytes_is_refused(server, chunked):
    """The client can read why, and its connection goes on."""
    body = b" " * (MAX_REQUEST_BYTES + 1)
    with httpx2.Client(base_url=server.url, timeout=PATIENCE) as client:
        refused = client.post("/embed", content=iter([body]) if chunked else body)
        assert refused.status_code == 413
        size = f"more than {MAX_REQUEST_BYTES}" if chunked else f"{MAX_REQUEST_BYTES + 1}"
        assert refused.json()["error"] == (
            f"The body has {size} bytes; at most {MAX_REQUEST_BYTES} are allowed."
        )
        assert client.post("/embed", json={"inputs": "a"}).status_code == 200


@pytest.fixture
def quick_arrivals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "_ARRIVAL_SECONDS", 0.05)


def upload(server: Running, body: bytes, *, length: int, key: str = "any") -> socket.socket:
    """Begin to send a body, and stop."""
    connection = server.connect()
    head = f"POST /embed HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
    connection.sendall(f"{head}content-length: {length}\r\n\r\n".encode() + body)
    return connection


HEAD = b"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-le"
#: What is sent, and how its answer begins.
LATE = {
    "nothing": (b"", b""),
    "an empty line": (b"\r\n", b""),
    "a part of a head": (HEAD, b""),
    "a part of a body": (HEAD + b"ngth: 60\r\n\r\n{", b""),
    "a part of a refused body": (HEAD + b"ngth: 9999999\r\n\r\n{", b"HTTP/1.1 413 "),
}


@pytest.mark.usefixtures("quick_arrivals")
@pytest.mark.parametrize(("sent", "answer"), LATE.values(), ids=LATE)
def test_a_request_that_does_not_arrive_ends_its_connection(sent, answer):
    """A half-open connection, or one that sends a byte now and then, does not stay."""
    received = [b""]
    with running() as server, server.connect() as connection:
        connection.sendall(sent)
        with suppress(ConnectionResetError):
            received += iter(lambda: connection.recv(65536), b"")
        server.wait_until("in_flight", 0)
    assert b"".join(received)[:13] == answer


@pytest.mark.usefixtures("quick_arrivals")
def test_a_request_behind_a_slow_one_is_not_late():
    """The server does not read it before, so its time begins with its turn."""
    body = b'{"inputs": "a"}'
    with busy() as under_load, under_load.server.connect() as connection:
        head = b"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body + head)
        under_load.server.wait_until("waiting_runs", 1)
        time.sleep(0.15)
        connection.sendall(body)
        under_load.finish()
        answers = b""
        while answers.count(b"HTTP/1.1 200 ") < 2:
            answers += connection.recv(65536) or pytest.fail("the connection was closed")


@pytest.mark.usefixtures("quick_arrivals")
@pytest.mark.parametrize(
    ("method", "rest"),
    [("GET", b""), ("POST", b"hi")],
    ids=["between requests", "after a body that was not read"],
)
def test_an_idle_connection_is_kept_and_then_closed(method, rest):
    """The time for headers is another one; load balancers count on `--keep-alive`."""
    head = f"{method} /live HTTP/1.1\r\nhost: x\r\ncontent-length: {len(rest)}\r\n\r\n"
    with running(keep_alive=1) as server, server.connect() as connection:
        for _ in range(2):
            connection.sendall(head.encode())
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536) or pytest.fail("the connection was closed")
            assert answer.startswith(b"HTTP/1.1 200 ")
            connection.sendall(rest)
            time.sleep(0.15)
        assert connection.recv(1) == b""


def test_a_response_does_not_wait_for_acknowledgments(server):
    """Nagle's algorithm would delay the body, which is sent after the head, by 40 ms."""
    with server.connect() as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(1)
        (accepted,) = server.server.server_state.connections
        end = accepted.transport.get_extra_info("socket")
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_client_that_goes_away_frees_the_queue(capsys):
    """Its runs are dropped before they are computed, and the log has 499."""
    with busy() as under_load:
        server = under_load.server
        body = b'{"inputs": "goes away"}'
        with upload(server, body, length=len(body)):
            server.wait_until("waiting_runs", 1)
        server.wait_until("waiting_runs", 0)
        server.wait_until("in_flight", 1)
        under_load.finish()
    assert len(under_load.session.shapes) == 1
    assert sorted(logged(capsys.readouterr().out, "status", "error")) == [
        (200, None),
        (499, "client_gone"),
    ]


def logged(output: str, *names: str) -> list[tuple[Any, ...]]:
    """Return these fields of the lines of the log."""
    lines = map(json.loads, output.splitlines())
    return [tuple(line.get(name) for name in names) for line in lines]


def test_a_full_queue_is_a_429_of_every_api():
    """It needs no text to be tokenized, and no upload to be waited for."""
    with busy(seconds_per_token=0.1, max_queue_seconds=3.5) as under_load:
        server, waiting = under_load.server, under_load.embed("b " * 34)
        server.wait_until("waiting_tokens", 36)
        message = (
            "The server has too much to do: it has 3.6 seconds of work of this caller, and at most "
            "3.5 are allowed. Send the request again in 4 s."
        )
        refused = server.post("/embed", {"inputs": "one"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "4")
        assert refused.json() == {"error": message, "error_type": "Overloaded"}
        refused = server.post("/v1/embeddings", {"input": "a", "model": "m"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        with upload(server, b"{", length=500_000) as connection:
            assert connection.recv(65536).startswith(b"HTTP/1.1 429 ")
        under_load.finish(waiting)


def test_a_request_that_takes_too_long_is_ended():
    """It gets the status of its API for that, and leaves the queue."""
    with busy(timeout=0.2) as under_load:
        late = under_load.server.post("/", {"text": "b"})
        assert (late.status_code, late.json()["code"]) == (503, "out_of_time")
        assert re.match(r"The request was not done after 0\.\d s at", late.json()["error"])
        assert under_load.server.queue.waiting_runs == 0


def test_bodies_that_arrived_have_a_bound_in_bytes(monkeypatch):
    """A caller that uploads much refuses only itself; when that ends, there is room again."""
    monkeypatch.setattr(app, "_BODY_BYTES", 100_000)
    with running(keys=keys_of("slow", "other")) as server:
        body = json.dumps({"inputs": "a"}).encode() + b" " * 60_000

        def send(key: str) -> httpx2.Response:
            return server.post("/embed", body, headers=bearer(key))

        uploads = [upload(server, b"{" * 30_000, length=500_000, key="slow") for _ in range(3)]
        wait_until(lambda: send("slow").status_code == 429)
        assert "bytes of bodies of this caller" in send("slow").json()["error"]
        assert send("other").status_code == 200
        headers = {**bearer("other"), "content-encoding": "gzip"}
        inflated = server.post("/embed", gzip.compress(b" " * 200_000), headers=headers)
        assert inflated.status_code == 429
        for connection in uploads:
            connection.close()
        server.wait_until("in_flight", 0)
        assert send("slow").status_code == 200


def test_a_caller_with_too_many_requests_refuses_only_itself():
    """The others have their equal part of the bound, and what is still uploaded is no request."""
    session = GatedSession()
    with (
        running(session, keys=keys_of("hostile", "good"), max_concurrent_requests=4) as server,
        ThreadPoolExecutor(4) as threads,
    ):
        bad, good = bearer("hostile"), bearer("good")
        uploads = [upload(server, b"{", length=60, key="hostile") for _ in range(8)]
        server.wait_until("in_flight", 8)
        assert server.get("/info", headers=bad).status_code == 200
        answers = [
            threads.submit(server.post, "/embed", {"inputs": f"t{n}"}, headers=bad)
            for n in range(4)
        ]
        # Another request before all four have a place would take one.
        wait_until(lambda: sum(server.app._requests.values()) == 4)
        refused = server.get("/info", headers=bad)
        error = refused.json()["error"]
        assert refused.status_code == 429
        assert "it has 4 requests of this caller, and at most 4 are allowed" in error
        assert server.get("/info", headers=good).status_code == 200
        uploads[0].sendall(b" " * 59)  # A body that is there now is one more.
        assert uploads[0].recv(65536).startswith(b"HTTP/1.1 429 ")
        session.open()
        assert [answer.result(PATIENCE).status_code for answer in answers] == [200] * 4
        for connection in uploads:
            connection.close()
        server.wait_until("in_flight", 0)


def test_a_request_without_a_key_is_refused_before_its_body(capsys):
    """The 401 comes without the body; the log has the key's name."""
    with running(keys=keys_of("ada")) as server:
        with upload(server, b"", length=50) as connection:
            answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b'www-authenticate: Bearer error="invalid_token"\r\n' in answer
        server.post("/embed", {"inputs": "a"}, headers=bearer("ada"))
    assert logged(capsys.readouterr().out, "status", "key") == [(401, None), (200, "ada")]


def test_the_log_has_no_text(capsys):
    """A line has what Lambda's has, with the time in the queue."""
    with running() as server:
        server.post("/embed", {"inputs": "a secret"})
        server.post("/embed", {"inputs": "another secret", "extra": "secret"})
        server.post("/embed", b'{"inputs": "secret')
    output = capsys.readouterr().out
    assert "secret" not in output
    assert logged(output, "status", "texts", "coldStart") == [
        (200, 1, None),
        (422, None, None),
        (400, None, None),
    ]
    assert [milliseconds >= 0 for (milliseconds,) in logged(output, "queueMs")] == [True] * 3


def test_a_session_that_ends_its_thread_ends_no_worker():
    """The request gets an error that names the cause, and the next one its vector."""
    session = HashSession(failure=SystemExit())
    with running(session) as server:
        assert server.post("/", {"text": "a"}).status_code == 500
        session.failure = None
        assert server.post("/", {"text": "a"}).status_code == 200
