"""A client that was used before a fork, in the child and in its parent."""

import subprocess
import sys

import pytest

# It ends the child by the interpreter's own exit, which waits for threads. The alarm ends a hang.
PROGRAM = """
import os, signal, sys, threading
import httpx
import numpy as np
from embedding_client import BatchLimits, EmbeddingClient, EmbeddingClientError, SigV4Auth
signal.alarm(100)
url = sys.argv[1]
TEXTS = [f"text number {number}" for number in range(40)]
def client(**options):
    return EmbeddingClient(url, limits=BatchLimits(texts=4), **options)
def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(100)
        work()
        sys.exit(0)
    return pid
def end(pid):
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"the child ended with {status}"
def refused(call, reason):
    try:
        call()
    except EmbeddingClientError as error:
        assert reason in str(error)
    else:
        raise AssertionError("it was allowed")
"""


@pytest.fixture
def run(running):
    """Run a program with a client for the endpoint."""

    def program(body):
        command = [sys.executable, "-c", PROGRAM + body, running.url]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert ran.returncode == 0, ran.stderr

    return program


def test_a_used_client_works_in_both_processes(run):
    """At the same time, with the vectors of another client each; also in the child of a child."""
    run("""
used = client()
expected = used.embed(TEXTS)
def embed():
    for _ in range(3):
        assert np.allclose(used.embed(TEXTS), expected, atol=1e-5)
    assert used.vector_space
def embed_and_fork():
    embed()
    end(child(embed))
pid = child(embed_and_fork)
embed()
end(pid)
""")


def test_a_fork_in_the_midst_of_calls(run):
    """Threads of the parent may hold any lock of the client at the moment of the fork."""
    run("""
used = client()
expected = used.embed(TEXTS)
stop = threading.Event()
def always():
    while not stop.is_set():
        assert np.allclose(used.embed(TEXTS), expected, atol=1e-5)
threads = [threading.Thread(target=always) for _ in range(2)]
[thread.start() for thread in threads]
def embed():
    assert np.allclose(used.embed(TEXTS), expected, atol=1e-5)
pids = [child(embed) for _ in range(5)]
[end(pid) for pid in pids]
stop.set()
[thread.join() for thread in threads]
""")


def test_a_lock_that_the_parent_holds_is_free_in_the_child(run):
    """Of the signer, which holds it while it waits for credentials, and of the guard."""
    run("""
auth = SigV4Auth()
used = client(auth=auth)
used.embed(TEXTS)
with auth._lock, used._flows.guard._lock:
    pid = child(lambda: used.embed(TEXTS))
end(pid)
""")


def test_a_stream_belongs_to_the_process_that_began_it(run):
    """Its requests are in threads of the parent. The parent reads on."""
    run("""
used = client()
stream = used.iter_embed(TEXTS)
first = next(stream)
def read():
    refused(lambda: next(stream), "begun before this process was forked")
    assert len(used.embed(TEXTS)) == 40
end(child(read))
assert sum(map(len, [first, *stream])) == 40
""")


def test_connections_of_the_callers_own_http_client_are_not_shared(run):
    """An answer could go to the other process. Without a connection it works."""
    run("""
used, unused = (client(http_client=httpx.Client()) for _ in range(2))
used.embed(TEXTS)
def embed():
    assert len(unused.embed(TEXTS)) == 40
    refused(lambda: used.embed(TEXTS), "make the client after the fork")
end(child(embed))
assert len(used.embed(TEXTS)) == 40
""")


def test_a_closed_client_stays_closed(run):
    """In the child, too."""
    run("""
used = client()
used.embed(TEXTS)
used.close()
end(child(lambda: refused(lambda: used.embed(TEXTS), "is closed")))
""")
