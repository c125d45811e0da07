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
    with running() as server:
        yield server


def exchange(server: Running, *sent: bytes) -> bytes:
    """Send data, and return what comes until the server closes the connection."""
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for data in sent:
            connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


REFUSAL = (
    b"The request is not valid HTTP/1.1, or has more than 16384 bytes of headers, or 16 requests "
    b"wait before it."
)
CLOSE = b"connection: close\r\n"
LENGTH = b"content-length: %d\r\n" % len(BODY)


LIVE, END = b"GET /live HTTP/1.1\r\n", b"host: x\r\n" + CLOSE + b"\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
#: What is sent, in pieces, and the status of its only answer.
SENT: dict[str, tuple[list[bytes], int]] = {
    "many headers": ([LIVE, *[b"a: b\r\n"] * 98, END], 200),
    "a long path": ([b"GET /live?", b"x" * 16_000, b" HTTP/1.1\r\n", END], 200),
    "a longer path": ([b"GET /live?", b"x" * 16_400], 400),
    "a long header": ([LIVE, b"a: " + b"x" * 16_400], 400),
    "a long header's name": ([LIVE, b"a" * 16_400], 400),
    "too many headers": ([LIVE, b"a: b\r\n" * 3000], 400),
    "long headers together": ([LIVE, *[b"a%d: " % n + b"x" * 4096 for n in range(4)]], 400),
    "many trailers": ([CHUNKED + b"1\r\n{\r\n0\r\n" + b"a: b\r\n" * 6000], 400),
    "a long trailer": ([CHUNKED + b"1\r\n{\r\n0\r\na: " + b"x" * 40_000], 400),
    "a long trailer's name": ([CHUNKED + b"1\r\n{\r\n0\r\n" + b"a" * 40_000 + b": b\r\n"], 400),
    # It has no meaning, so it is not waited for.
    "an extension of a chunk": ([CHUNKED + b"1;" + b"x" * 40_000], 400),
    # The body cannot come any more, so its rest is not waited for.
    "a chunk that is none": ([CHUNKED + b"zz\r\n"], 400),
    "no HTTP": ([b"not HTTP\r\n\r\n"], 400),
    "a header that is none": ([b"GET / HTTP/1.1\r\nhost x\r\n\r\n"], 400),
    # CONNECT is an upgrade that cannot be ignored.
    "a tunnel": ([b"CONNECT x:443 HTTP/1.1\r\n" + END], 400),
}


@pytest.mark.parametrize(("pieces", "expected"), SENT.values(), ids=SENT)
def test_what_comes_in_an_odd_way_has_one_answer(server, pieces, expected, capfd):
    """Nothing of a bad head is written to the server's output: anyone could fill it."""
    answer = exchange(server, *pieces)
    assert answer.count(b"HTTP/1.1 ") == 1, answer[:300]
    assert int(answer[9:12]) == expected
    if expected == 400:
        assert answer.endswith(REFUSAL)
    if not pieces[0].startswith(HEAD):
        assert capfd.readouterr() == ("", "")
    server.wait_until("in_flight", 0)


def test_requests_ahead_of_their_answers_have_a_bound(server):
    """Some are answered in turn, and for many the connection is closed."""
    few = b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n" * 16
    answer = exchange(server, few + b"GET /live HTTP/1.1\r\nhost: x\r\n" + CLOSE + b"\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 17
    with server.connect() as connection, pytest.raises(ConnectionError):
        connection.sendall(few * 20_000)


#: Headers that Java's HttpClient and `curl --http2` send.
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
    assert [status[:3] for status in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200"]
    vector = server.post("/embed", BODY).json()
    assert json.dumps(vector, separators=(",", ":")).encode() in answer
