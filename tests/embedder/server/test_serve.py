"""`embedding-kit embedder.server` with a real model: equal bits, and SIGTERM under load."""

import base64
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from embedder.application import build_router
from embedder.core.artifact import Artifact
from embedder.core.settings import EmbedderSettings
from embedder.http.http_types import Request
from tests.fixtures.waiting import PATIENCE, wait_until

WORDS = (
    (Path(__file__).parents[3] / "lambda_image/model_compiler/fidelity/documents.txt")
    .read_text(encoding="utf-8")
    .split()
)


def texts(count: int) -> list[str]:
    """Return different texts of 1 to 100 words, most of them short."""
    chosen = random.Random(1)
    inputs = []
    for number in range(count):
        size = round(100 ** chosen.random())
        start = chosen.randrange(len(WORDS) - size)
        inputs.append(f"{number} " + " ".join(WORDS[start : start + size]))
    return inputs


@contextmanager
def process(
    artifact: Artifact, *flags: str, code: Sequence[str] = ("-m", "embedder.server")
) -> Iterator[tuple[str, subprocess.Popen]]:
    program = subprocess.Popen(
        [sys.executable, *code, "--host", "127.0.0.1", "--port", "0", *flags],
        env={
            **os.environ,
            "EMBEDDING_ARTIFACT": str(artifact.folder),
            "EMBEDDING_CACHE_ENTRIES": "0",
            "EMBEDDING_TRUNCATE": "right",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = program.stderr.readline()
        ready = re.fullmatch(r"ready at (http://127\.0\.0\.1:\d+)\n", line)
        assert ready, line + program.stderr.read()
        yield ready[1], program
    finally:
        if program.poll() is None:
            program.kill()
        program.communicate(timeout=PATIENCE)


def body(text: str | list[str]) -> dict[str, Any]:
    return {"input": text, "model": "m", "encoding_format": "base64"}


def vectors(answer: bytes) -> list[bytes]:
    return [base64.b64decode(entry["embedding"]) for entry in orjson.loads(answer)["data"]]


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_vectors_alone_in_company_and_without_a_server_are_equal(minilm_artifact, count):
    """They are those of Lambda's router, in whatever company a text is run, on two workers."""
    inputs = texts(count)
    # A busy machine may need longer than the server gives a request by default.
    patient = ("--timeout", "600", "--max-queue-seconds", "600")
    with (
        process(minilm_artifact, "--no-keys", "--workers", "2", *patient) as (url, _),
        httpx2.Client(timeout=PATIENCE, limits=httpx2.Limits(max_connections=48)) as client,
        ThreadPoolExecutor(48) as threads,
    ):

        def ask(text: str | list[str]) -> list[bytes]:
            answer = client.post(f"{url}/v1/embeddings", json=body(text))
            assert answer.status_code == 200, answer.text
            return vectors(answer.content)

        in_company = list(threads.map(ask, inputs))
        alone = [ask(text) for text in inputs]
        listed = ask(inputs)
    assert alone == in_company == [[vector] for vector in listed]
    router = build_router(EmbedderSettings(artifact=minilm_artifact.folder, truncate="right"))
    requests = (Request("POST", "/v1/embeddings", body=orjson.dumps(body(text))) for text in inputs)
    assert alone == [vectors(router.handle(request).body) for request in requests]


#: The server, whose runs have no end as soon as it is ready.
ENDLESS = """
import ctypes, sys
from embedder.server import __main__ as server
import onnxruntime

def ready(address, announce=server._announce):
    onnxruntime.InferenceSession.run = lambda *_: ctypes.CDLL(None).sleep(3600)
    announce(address)

server._announce = ready
sys.exit(server.main())
"""


#: All that a server may write at its end: uvicorn's line.
CANCELLED = r"(Cancel \d running task\(s\), timeout graceful shutdown exceeded\n)?"


def wait_for_queue(url: str, runs: str) -> None:
    """Wait until as many runs wait as this pattern says."""
    metrics = partial(httpx2.get, f"{url}/metrics", timeout=PATIENCE)
    wait_until(
        lambda: bool(re.search(f"^embedding_queue_runs {runs}", metrics().text, re.MULTILINE))
    )


def in_time(program: subprocess.Popen, client: HTTPConnection) -> None:
    program.send_signal(signal.SIGTERM)
    answer = client.getresponse()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert len(orjson.loads(answer.read())) == 200


def drain_over(program: subprocess.Popen, client: HTTPConnection) -> None:
    program.send_signal(signal.SIGTERM)
    answer = client.getresponse()
    headers = [answer.headers[name] for name in ("retry-after", "connection")]
    assert (answer.status, headers) == (503, ["1", "close"])


def is_refused(client: HTTPConnection) -> bool:
    """Return whether the server accepts no new connections."""
    with socket.socket() as connection:
        return connection.connect_ex((client.host, client.port)) != 0


def second_signal(program: subprocess.Popen, client: HTTPConnection) -> None:
    program.send_signal(signal.SIGTERM)
    wait_until(lambda: is_refused(client))
    program.send_signal(signal.SIGTERM)
    client.close()


def client_leaves(program: subprocess.Popen, client: HTTPConnection) -> None:
    client.close()
    program.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("end", "drain", "code"),
    [
        (in_time, "600", ("-m", "embedder.server")),
        (drain_over, "1", ("-m", "embedder.server")),
        (drain_over, "1", ("-c", ENDLESS)),
        (second_signal, "3600", ("-c", ENDLESS)),
        (client_leaves, "3", ("-c", ENDLESS)),
    ],
)
def test_an_end_during_a_run_is_no_crash(minilm_artifact, end, drain, code):
    """Late requests get 503, a run that has begun has a bound, and the exit status is 0."""
    # Of some 0.1 seconds: the run used to come back while the interpreter ended.
    runs = ("--workers", "1", "--max-batch-tokens", "2048", "--timeout", "3600")
    flags = (*runs, "--no-keys", "--drain", drain)
    listed = [f"{number} " + " ".join(WORDS[:300]) for number in range(200)]
    with process(minilm_artifact, *flags, code=code) as (url, program):
        client = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
        client.request("POST", "/embed", orjson.dumps({"inputs": listed}))
        wait_for_queue(url, "[1-9]")
        end(program, client)
        assert program.wait(PATIENCE) == 0
        assert re.fullmatch(CANCELLED, program.stderr.read())


def test_an_upload_and_the_run_that_has_begun_get_503(minilm_artifact):
    """They are answered before the server is gone, as what waits for the model."""
    # Two texts are no run together: one runs, and the other one waits.
    runs = ("--workers", "1", "--max-batch-tokens", "4")
    flags = (*runs, "--no-keys", "--drain", "2")
    text = orjson.dumps({"inputs": "a"})
    with process(minilm_artifact, *flags, code=("-c", ENDLESS)) as (url, program):
        host = url.removeprefix("http://")
        clients = [HTTPConnection(host, timeout=PATIENCE) for _ in range(3)]
        for client, length in zip(clients, (1000, len(text), len(text)), strict=True):
            client.request("POST", "/embed", text, {"content-length": f"{length}"})
        wait_for_queue(url, "1.0")
        program.send_signal(signal.SIGTERM)
        assert [client.getresponse().status for client in clients] == [503, 503, 503]
        assert program.wait(PATIENCE) == 0
        assert re.fullmatch(CANCELLED, program.stderr.read())


def test_a_server_has_its_own_limits_and_its_port_for_itself(minilm_artifact):
    """Lambda gives an environment one request at a time. A second server is one clear error."""
    flags = ("--no-keys", "--max-concurrent-requests", "77", "--max-batch-tokens", "600")
    with process(minilm_artifact, *flags) as (url, _):
        info = httpx2.get(f"{url}/info", timeout=PATIENCE).json()
        assert info["max_concurrent_requests"] == info["tokenization_workers"] == 77
        assert info["max_batch_tokens"] == 600
        port = url.rpartition(":")[2]
        error = r"^error: The server cannot listen: Address already in use \(while attempting to "
        with pytest.raises(AssertionError, match=error):
            process(minilm_artifact, "--no-keys", "--port", port).__enter__()
