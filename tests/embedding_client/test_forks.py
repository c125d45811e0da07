"""A client that was used before a fork, in the child and in its parent."""

import subprocess
import sys

import pytest

# It ends the child by the interpreter's own exit, which waits for threads. The alarm ends a hang.
PROGRAM = """
import os, signal, sys, threading, warnings
import httpx2
import numpy as np
from embedding_client import BatchLimits, EmbeddingClient, EmbeddingClientError
signal.alarm(300)
# That a process with threads forks is the subject.
warnings.filterwarnings("ignore", message=".*use of fork", category=DeprecationWarning)
url = sys.argv[1]
TEXTS = [f"text number {number}" for number in range(40)]
def client(**options):
    return EmbeddingClient(url, limits=BatchLimits(texts=4), **options)
def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)
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

    def program(body, *options):
        command = [sys.executable, *options, "-c", PROGRAM + body, running.url]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")

    return program


def test_a_client_that_has_sent_requests_is_refused_in_a_child(run):
    """Its threads and connections are the parent's, which continues; closing it changes nothing."""
    run("""
http = httpx2.Client()
used, own = client(), client(http_client=http)
expected = used.embed(TEXTS)
own.info()
def use():
    refused(lambda: used.embed(TEXTS), "make the client after the fork")
    refused(own.info, "make the client after the fork")
    used.close()
    assert np.allclose(client().embed(TEXTS), expected, atol=1e-5)
pid = child(use)
assert np.allclose(used.embed(TEXTS), expected, atol=1e-5)
end(pid)
assert used.info()
http.close()
""")


def test_a_client_that_has_sent_nothing_works_in_a_child(run):
    """As servers make it that fork their workers; no process leaves a connection open."""
    program = """
unused = client()
def embed():
    assert len(unused.embed(TEXTS)) == 40
for pid in [child(embed), child(embed)]:
    end(pid)
embed()
"""
    run(program, "-W", "error")


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
def refuse():
    refused(lambda: used.embed(TEXTS), "make the client after the fork")
pids = [child(refuse) for _ in range(5)]
[end(pid) for pid in pids]
stop.set()
[thread.join() for thread in threads]
""")


def test_a_stream_belongs_to_the_process_that_began_it(run):
    """Its requests are in threads of the parent. The parent reads on."""
    run("""
used = client()
stream = used.iter_embed(TEXTS)
first = next(stream)
end(child(lambda: refused(lambda: next(stream), "make the client after the fork")))
assert sum(map(len, [first, *stream])) == 40
""")
