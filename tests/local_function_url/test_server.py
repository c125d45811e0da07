"""The local Function URL over HTTP, with AWS's own emulator behind it."""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import httpx
import pytest
from botocore.credentials import Credentials

from local_function_url.runtime import EmulatedRuntime, InProcessRuntime, emulator
from local_function_url.server import PAYLOAD_LIMIT, LocalFunctionUrl
from local_function_url.signature import Verifier

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def http():
    with httpx.Client(timeout=None) as client:
        yield client


@pytest.fixture
def send(http, endpoint, signed):
    """Sends a request signed by botocore to the endpoint."""

    def send(path="/", **parts):
        return http.request(**signed(endpoint.url + path, **parts))

    return send


def test_the_emulator_runs_here(endpoint):
    """On Linux the function runs in AWS's own runtime, not in this process."""
    assert emulator() is not None
    assert endpoint.url.startswith("http://127.0.0.1:")


def test_botocore_is_answered(send):
    """A request signed by botocore reaches the function with its body."""
    response = send(body=b'{"text": "hello"}', headers=JSON)
    assert response.status_code == 200
    assert response.json()["body"] == '{"text": "hello"}'
    assert response.headers["x-amzn-requestid"] == response.json()["requestContext"]["requestId"]


def curl(endpoint, *arguments, user="AKIDEXAMPLE:a secret"):
    command = ["curl", "--silent", "--aws-sigv4", "aws:amz:us-east-1:lambda", "--user", user]
    form = ["--write-out", "\n%{http_code}"]
    ran = subprocess.run(
        [*command, *form, *arguments, endpoint.url + "/"],
        capture_output=True,
        check=True,
        text=True,
    )
    body, _, status = ran.stdout.rpartition("\n")
    return int(status), json.loads(body)


def test_curl_is_answered(endpoint):
    """Curl's own signature, of an implementation that shares nothing with botocore, is accepted."""
    status, event = curl(endpoint, "--data", '{"text": "hello world"}')
    assert status == 200
    assert event["isBase64Encoded"] is True  # curl says it is a form


def test_curl_with_another_secret_is_refused(endpoint):
    """The same endpoint refuses curl's signature made with another secret."""
    status, body = curl(endpoint, "--data", "{}", user="AKIDEXAMPLE:another")
    assert status == 403
    assert "does not match the signature you provided" in body["message"]


def test_an_unsigned_request_is_refused(http, endpoint):
    """Without a signature: 403, AWS's error type, AWS's body."""
    response = http.post(endpoint.url, content=b"{}")
    assert response.status_code == 403
    assert response.headers["x-amzn-errortype"] == "AccessDeniedException"
    assert response.json()["Message"].startswith("Forbidden.")


def test_a_wrongly_signed_request_is_refused(send):
    """With another secret: 403."""
    response = send(credentials=Credentials("AKIDEXAMPLE", "another"))
    assert response.status_code == 403
    assert response.headers["x-amzn-errortype"] == "InvalidSignatureException"


@pytest.mark.parametrize("altered", [{"content": b'{"text": "other"}'}, {"method": "PUT"}])
def test_an_altered_request_is_refused(http, endpoint, signed, altered):
    """What was changed after it was signed: 403."""
    request = signed(endpoint.url + "/", body=b'{"text": "hello"}')
    assert http.request(**{**request, **altered}).status_code == 403


def test_a_stale_request_is_refused(http, endpoint, signed, monkeypatch):
    """A signature of six minutes ago: 403, and the message says when it expired."""
    import datetime

    from botocore import auth

    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=6)
    monkeypatch.setattr(auth, "get_current_datetime", lambda *_: past)
    response = http.request(**signed(endpoint.url + "/"))
    assert response.status_code == 403
    assert response.json()["message"].startswith("Signature expired")


@pytest.mark.parametrize(
    "path", ["/raise", "/exit", "/malformed", f"/large?bytes={PAYLOAD_LIMIT + 200}"]
)
def test_a_failing_function_is_a_502_without_its_inside(send, path):
    """What goes wrong in the function is told as Lambda tells it; the next request is served."""
    response = send(path)
    assert (response.status_code, response.text) == (502, "Internal Server Error")
    assert send("/").status_code == 200


def test_a_function_over_its_time_is_a_502(echo, http, signed):
    """The emulator ends a request that takes longer than the timeout, and serves the next."""
    runtime = EmulatedRuntime(dataclasses.replace(echo, timeout=5), binary=emulator())
    verifier = Verifier(credentials=Credentials("AKIDEXAMPLE", "a secret"), region="us-east-1")
    with LocalFunctionUrl(runtime=runtime, verifier=verifier) as local:
        slow = http.request(**signed(local.url + "/sleep?seconds=600"))
        assert (slow.status_code, slow.text) == (502, "Internal Server Error")
        # A busy machine may need more than the five seconds to start the function again.
        again = (http.request(**signed(local.url + "/")).status_code for _ in range(20))
        assert 200 in again


def test_responses_are_the_functions_own(send):
    """Status, binary body and cookies come through."""
    response = send("/binary")
    assert (response.status_code, response.content) == (201, b"\x00\x01\x02\xff")
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert send("/bare").json() == [1, 2, 3]


def test_a_request_near_the_limit_is_served(send):
    """Almost 6 MB of text pass."""
    body = b"x" * (PAYLOAD_LIMIT - 4000)
    assert (
        send("/large?bytes=10", body=body, headers={"content-type": "text/plain"}).text == "x" * 10
    )


@pytest.mark.parametrize(
    ("size", "content_type"),
    [
        (PAYLOAD_LIMIT + 1, "text/plain"),
        (PAYLOAD_LIMIT * 2, "text/plain"),
        (5_000_000, "image/png"),
    ],
)
def test_a_request_over_the_limit_is_a_413(send, size, content_type):
    """Over 6 MB, or over it once in base64, nothing reaches the function."""
    response = send(body=b"x" * size, headers={"content-type": content_type})
    assert response.status_code == 413
    assert response.json()["message"].startswith("Request must be smaller than 6291456 bytes")


def test_a_large_response_passes(send):
    """Responses may fill 6 MB."""
    assert len(send("/large?bytes=6200000").content) == 6_200_000


def test_chunked_bodies_are_read(http, endpoint, signed):
    """A body of unknown length arrives whole."""
    request = signed(endpoint.url + "/", body=b"one two", headers=JSON)
    headers = {
        name: value
        for name, value in request["headers"].items()
        if name.lower() != "content-length"
    }
    response = http.post(endpoint.url + "/", content=iter([b"one ", b"two"]), headers=headers)
    assert response.json()["body"] == "one two"


@pytest.mark.parametrize(
    ("framing", "status"),
    [
        ("Content-Length: many", b"400"),
        ("Content-Length: -1", b"400"),
        ("Transfer-Encoding: chunked\r\n\r\nnonsense", b"400"),
    ],
)
def test_broken_framing_is_a_400(endpoint, framing, status):
    """A body that cannot be framed is refused, and the connection is closed."""
    host, port = endpoint.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(f"POST / HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 " + status)


@contextlib.contextmanager
def connected(endpoint):
    """A raw connection to the endpoint."""
    host, port = endpoint.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        yield raw


def head_of(request, **replaced):
    """The head of a request as it goes over the wire, with `Expect: 100-continue`."""
    path = "/" + request["url"].partition("://")[2].partition("/")[2]
    headers = {"expect": "100-continue", **request["headers"], **replaced}
    headers.setdefault("host", request["url"].partition("://")[2].partition("/")[0])
    lines = [f"{request['method']} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_a_caller_that_waits_is_told_to_send_its_body(endpoint, signed):
    """`Expect: 100-continue` gets the interim answer before the body, the final one after it."""
    body = b"x" * 2_000_000
    request = signed(endpoint.url + "/large?bytes=3", body=body)
    head = head_of(request, **{"content-length": len(body)})
    with connected(endpoint) as raw:
        reader = raw.makefile("rb")
        for _ in range(2):  # the connection is kept
            raw.sendall(head)
            assert reader.readline() == b"HTTP/1.1 100 Continue\r\n"
            assert reader.readline() == b"\r\n"
            raw.sendall(body)
            assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
            while (line := reader.readline()) != b"\r\n":
                assert b"100" not in line.split()[:1]
            assert reader.read(3) == b"xxx"


def test_a_caller_that_waits_sends_chunks(endpoint, signed):
    """A body of unknown length is asked for, too."""
    request = signed(endpoint.url + "/large?bytes=3", body=b"one two")
    headers = {k: v for k, v in request["headers"].items() if k.lower() != "content-length"}
    head = head_of({**request, "headers": headers}, **{"transfer-encoding": "chunked"})
    with connected(endpoint) as raw:
        raw.sendall(head)
        reader = raw.makefile("rb")
        assert reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert reader.readline() == b"\r\n"
        raw.sendall(b"7\r\none two\r\n0\r\n\r\n")
        assert reader.readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("changed", "status", "told"),
    [
        ({"content-length": PAYLOAD_LIMIT + 1}, b"413", b"Request must be smaller than"),
        ({"content-length": "many"}, b"400", b"Content-Length should be a number"),
        ({"authorization": "none"}, b"403", b"Authorization header requires"),
    ],
)
def test_a_caller_that_waits_is_refused_before_its_body(endpoint, signed, changed, status, told):
    """What is refused whatever the body is gets the final answer, and the connection ends."""
    request = signed(endpoint.url + "/", body=b"body")
    headers = {name.lower(): value for name, value in request["headers"].items()}
    with connected(endpoint) as raw:
        raw.sendall(head_of({**request, "headers": headers}, **changed))
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"100 Continue" not in answer
    assert told in answer


def test_requests_wait_for_each_other(send):
    """Many at once are all answered: the environment takes one at a time, the others queue."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bodies = [str(number).encode() for number in range(64)]
        answers = pool.map(lambda body: send(body=body, headers=JSON).json()["body"], bodies)
        assert list(answers) == [body.decode() for body in bodies]


def test_connections_are_kept(endpoint, signed):
    """A client may send request after request on one connection."""
    with httpx.Client() as client:
        for _ in range(2):
            client.request(**signed(endpoint.url + "/"))
        assert len(client._transport._pool.connections) == 1


def test_the_function_sees_lambdas_environment_only(send, monkeypatch):
    """It gets Lambda's variables and its own, not this shell's."""
    monkeypatch.setenv("A_VARIABLE_OF_THIS_SHELL", "1")
    environment = send("/environment").json()
    assert environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "1769"
    assert "A_VARIABLE_OF_THIS_SHELL" not in environment


def test_two_emulators_run_side_by_side(echo, send, endpoint):
    """No port is fixed: a second environment starts beside the first."""
    second = EmulatedRuntime(echo, binary=emulator())
    try:
        event = json.dumps({"rawPath": "/bare"}).encode()
        assert json.loads(second.invoke(event)) == [1, 2, 3]
        assert send("/bare").json() == [1, 2, 3]
    finally:
        second.close()


def test_the_handler_also_runs_in_process(echo, signed, monkeypatch):
    """Where the emulator has no binary, this process answers the same requests, and says so."""
    monkeypatch.setattr("sys.path", list(sys.path))
    for name, value in echo.variables().items():
        monkeypatch.setenv(name, value)
    runtime = InProcessRuntime(echo)
    assert "this process" in runtime.description
    verifier = Verifier(credentials=Credentials("AKIDEXAMPLE", "a secret"), region="us-east-1")
    with LocalFunctionUrl(runtime=runtime, verifier=verifier) as local, httpx.Client() as client:
        assert client.request(**signed(local.url + "/environment")).json()["pid"] == os.getpid()
        assert client.request(**signed(local.url + "/raise")).text == "Internal Server Error"


def test_nothing_outlives_a_killed_server(tmp_path):
    """However the server ends, the emulator and the function end with it."""
    program = textwrap.dedent("""
        import json, sys
        from pathlib import Path
        from local_function_url.runtime import Function, start
        runtime = start(Function(handler="echo.handler", source_root=Path(sys.argv[1])))
        answer = json.loads(runtime.invoke(json.dumps({"rawPath": "/environment"}).encode()))
        print(json.loads(answer["body"])["pid"], flush=True)
        sys.stdin.read()
    """)
    command = [sys.executable, "-c", program, str(Path(__file__).parent)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:
        function = int(server.stdout.readline())
        server.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 120
    while Path(f"/proc/{function}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{function}").exists()
