"""The rules for a connection before its request is known: bounds, `Upgrade`, and bad requests."""

import json
import socket
from collections.abc import Iterator

import pytest

from tests.embedder.server.running import Running, running

BODY = b'{"inputs": "a"}'
HEAD = b"POST /embed HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as found:
        yield found


def exchange(server: Running, *sent: bytes) -> bytes:
    """Send data, and return what comes until the server closes the connection."""
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in sent:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def status(answer: bytes) -> int:
    assert answer.count(b"HTTP/1.1 ") == 1, answer[:300]
    return int(answer[9:12])


CLOSE = b"connection: close\r\n"
LENGTH = b"content-length: %d\r\n" % len(BODY)


@pytest.mark.parametrize(
    ("path", "expected"), [(b"/live?" + b"x" * 8186, 200), (b"/live?" + b"x" * 8187, 414)]
)
def test_a_path_has_a_bound(server, path, expected):
    """The path and the query have at most 8 kB."""
    answer = exchange(server, b"GET ", path, b" HTTP/1.1\r\nhost: x\r\n" + CLOSE + b"\r\n")
    assert status(answer) == expected
    if expected == 414:
        assert answer.endswith(b"The path and the query may have 8192 bytes; found more.")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([b"a: b\r\n"] * 98, 200),
        ([b"a: b\r\n"] * 99, 431),
        ([b"a: " + b"x" * 16335 + b"\r\n"], 200),
        ([b"a: " + b"x" * 16360 + b"\r\n"], 431),
        ([b"a%d: " % n + b"x" * 4096 + b"\r\n" for n in range(4)], 431),
        ([b"a" * 20_000 + b": b\r\n"], 431),
        ([b"a: " + b"x" * 300_000 + b"\r\n"], 431),
    ],
)
def test_headers_have_a_bound(server, headers, expected):
    """At most 100, of 16 kB together, however they come."""
    head = b"GET /live HTTP/1.1\r\nhost: x\r\n" + CLOSE
    answer = exchange(server, head, *headers, b"\r\n")
    assert status(answer) == expected
    if expected == 431:
        assert answer.endswith(b"100 headers with 16384 bytes are allowed; found more.")


@pytest.mark.parametrize(
    "endless",
    [b"GET /" + b"x" * (1 << 19), HEAD + b"a: b\r\n" * (1 << 16), HEAD + b"a" * (1 << 19)],
)
def test_a_head_without_an_end_is_not_kept(server, endless):
    """It is refused when it is over the bound, and what follows is not read for long."""
    with server.connect() as connection:
        connection.sendall(endless)
        answer = connection.recv(65536)
        assert answer.startswith((b"HTTP/1.1 414 ", b"HTTP/1.1 431 "))
        with pytest.raises(ConnectionError):
            connection.sendall(endless * 100)
    assert server.get("/live").status_code == 200


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
#: What is sent, and the status of its only answer.
SENT: dict[str, tuple[bytes, int]] = {
    "many trailers": (CHUNKED + b"1\r\n{\r\n0\r\n" + b"a: b\r\n" * 200, 431),
    "a long trailer": (CHUNKED + b"1\r\n{\r\n0\r\na: " + b"x" * 40_000, 431),
    "a long trailer's name": (CHUNKED + b"1\r\n{\r\n0\r\n" + b"a" * 40_000 + b": b\r\n", 431),
    # It has no meaning, so it is not waited for.
    "an extension of a chunk": (CHUNKED + b"1;" + b"x" * 40_000, 431),
    # The body cannot come any more, so nobody waits for it.
    "a chunk that is none": (CHUNKED + b"zz\r\n", 400),
    "no HTTP": (b"not HTTP\r\n\r\n", 400),
    "a header that is none": (b"GET / HTTP/1.1\r\nhost x\r\n\r\n", 400),
    # CONNECT is an upgrade that cannot be ignored.
    "a tunnel": (b"CONNECT x:443 HTTP/1.1\r\nhost: x\r\n" + CLOSE + b"\r\n", 400),
    # The answer is sent, and the connection is closed.
    "more than a request": (HEAD + LENGTH + b"\r\n" + BODY + b"\0\0\0", 200),
}


@pytest.mark.parametrize(("sent", "expected"), SENT.values(), ids=SENT)
def test_what_comes_in_an_odd_way_has_one_answer(server, sent, expected, capfd):
    """Nothing of a bad head is written to the server's output: anyone could fill it."""
    answer = exchange(server, sent)
    assert status(answer) == expected
    if expected == 400:
        assert answer.endswith(b"The request is not valid HTTP/1.1.")
    if not sent.startswith(HEAD):
        assert capfd.readouterr() == ("", "")
    server.wait_until("in_flight", 0)


def test_requests_ahead_of_their_answers_have_a_bound(server):
    """Those that were taken are answered; then the connection is closed."""
    answer = exchange(server, b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n" * 20_000)
    assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 200 ") == 17


#: As Java's HttpClient and `curl --http2` send them.
UPGRADE = b"upgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


@pytest.mark.parametrize(
    "body",
    [
        LENGTH + b"\r\n" + BODY,
        b"transfer-encoding: chunked\r\n\r\n5\r\n"
        + BODY[:5]
        + b"\r\na\r\n"
        + BODY[5:]
        + b"\r\n0\r\n\r\n",
    ],
)
@pytest.mark.parametrize("split", [1, 7, 10_000])
def test_an_upgrade_is_ignored(server, body, split):
    """The request is answered in HTTP/1.1, with its body, and so is the next one."""
    upgraded = HEAD + b"connection: Upgrade, HTTP2-Settings\r\n" + UPGRADE + body
    sent = upgraded + b"GET /live HTTP/1.1\r\nhost: x\r\n" + CLOSE + b"\r\n"
    answer = exchange(server, *(sent[at : at + split] for at in range(0, len(sent), split)))
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200"]
    vector = server.post("/embed", BODY).json()
    assert json.dumps(vector, separators=(",", ":")).encode() in answer
