"""Connections that stay open, against a real server."""

import fcntl
import resource
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from embedder.core.aws import ConnectionPool
from tests.embedder.core.aws.http_server import Server, serving
from tests.fixtures.certificates import certificate
from tests.fixtures.waiting import PATIENCE


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state


@pytest.fixture
def pool(server: Server) -> Iterator[ConnectionPool]:
    connections = ConnectionPool(server.url)
    yield connections
    connections.close()


def test_a_connection_is_used_again(server, pool):
    """Several requests go over one connection, each with its own headers and body."""
    for number in range(3):
        answer = pool.request(
            "POST", f"/{number}?a=b", headers={"x-n": str(number)}, body=b"abc", timeout=PATIENCE
        )
        assert (answer.status, answer.body, answer.headers["x-mixed"]) == (200, b"{}", "Yes")
    assert server.connections == 1
    assert [(r[0], r[1], r[2]["x-n"], r[3]) for r in server.requests] == [
        ("POST", f"/{number}?a=b", str(number), b"abc") for number in range(3)
    ]


def test_a_connection_that_the_server_closed_is_replaced(server, pool):
    """A server may close an idle connection at any time; the caller does not notice."""
    server.hang_up = True
    for _ in range(3):
        assert pool.request("GET", "/", timeout=PATIENCE).status == 200
    assert server.connections == 3


def test_a_connection_that_was_idle_for_long_is_replaced(server, pool, monkeypatch):
    """After a frozen environment wakes up, its old connection may be dead without a sign of it."""
    pool.request("GET", "/", timeout=PATIENCE)
    start = time.time()
    monkeypatch.setattr("embedder.core.aws.time.time", lambda: start + 3600)
    pool.request("GET", "/", timeout=PATIENCE)
    assert server.connections == 2


def test_closing_ends_the_idle_connections(server, pool):
    """A pool that was closed opens new connections."""
    pool.request("GET", "/", timeout=PATIENCE)
    pool.close()
    pool.request("GET", "/", timeout=PATIENCE)
    assert server.connections == 2


def test_threads_have_connections_of_their_own_of_which_a_few_are_kept(server, pool, monkeypatch):
    """Each gets its own answer, and no descriptor stays open for a busy minute of long ago."""
    monkeypatch.setattr("embedder.core.aws._MOST_IDLE", 2)
    barrier = threading.Barrier(4)

    def answer() -> tuple[int, bytes]:
        return 200, str(barrier.wait(timeout=PATIENCE)).encode()

    server.answer = answer
    with ThreadPoolExecutor(4) as threads:
        bodies = threads.map(lambda _: pool.request("GET", "/", timeout=PATIENCE).body, range(4))
        assert sorted(bodies) == [b"0", b"1", b"2", b"3"]
    assert server.connections == 4
    assert len(pool._idle) == 2


def test_many_threads_share_the_idle_connections(server, pool):
    """A connection that another thread has just taken is no error."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            requests = [
                threads.submit(pool.request, "GET", "/", timeout=PATIENCE) for _ in range(400)
            ]
            assert {request.result().status for request in requests} == {200}
    finally:
        sys.setswitchinterval(interval)
    assert server.connections <= 8


def test_a_connection_may_have_a_high_descriptor(server, pool):
    """A server has thousands of open files; `select` would refuse the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
    pool.request("GET", "/", timeout=PATIENCE)
    ((connection, _),) = pool._idle
    low = connection.sock
    connection.sock = socket.socket(fileno=fcntl.fcntl(low.fileno(), fcntl.F_DUPFD, 1100))
    low.close()
    assert pool.request("GET", "/", timeout=PATIENCE).status == 200
    assert server.connections == 1


def test_a_silent_server_times_out_and_its_connection_is_not_used_again():
    """The late answer to one request never becomes the answer to the next."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pool = ConnectionPool(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(TimeoutError):
            pool.request("GET", "/", timeout=0.05)
        assert pool._idle == []


def test_a_refused_connection_is_an_os_error():
    """A host that does not answer raises the system's error."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        ConnectionPool(f"http://127.0.0.1:{port}").request("GET", "/", timeout=PATIENCE)


def test_tls_is_verified(tmp_path, monkeypatch):
    """A server with a trusted certificate is called, over one connection; another is not."""
    public, context = certificate(tmp_path)
    with serving(context) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            ConnectionPool(server.url).request("GET", "/", timeout=PATIENCE)
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(public))
        pool = ConnectionPool(server.url)
        connected = server.connections
        for _ in range(2):
            assert pool.request("GET", "/", timeout=PATIENCE).body == b"{}"
        assert server.connections - connected <= 1
        pool.close()


@pytest.mark.parametrize("url", ["ftp://host", "https://", "host"])
def test_another_kind_of_url_is_refused(url):
    """Only HTTP URLs with a host are accepted."""
    with pytest.raises(ValueError, match="must be http:// or https://"):
        ConnectionPool(url)
