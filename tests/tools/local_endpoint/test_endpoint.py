"""The local Function URL over HTTP, with AWS's emulator."""

import concurrent.futures
import dataclasses
import io
import json
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx2
import pytest
from botocore.credentials import Credentials

from tests.fixtures.waiting import wait_until
from tools.local_endpoint.endpoint import PAYLOAD_LIMIT, LocalFunctionUrl
from tools.local_endpoint.runtime import EmulatedRuntime, emulator_binary
from tools.local_endpoint.signature import Verifier

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def http():
    with httpx2.Client(timeout=None) as client:
        yield client


@pytest.fixture
def send(http, endpoint, signed):
    """Send a request that botocore signed to the endpoint."""

    def send(path="/", **parts):
        return http.request(**signed(endpoint.url + path, **parts))

    return send


def test_requests_of_botocore_are_accepted(send):
    """The function receives the body of the request."""
    response = send(body=b'{"text": "hello"}', headers=JSON)
    assert response.status_code == 200
    assert response.json()["body"] == '{"text": "hello"}'
    assert response.headers["x-amzn-requestid"] == response.json()["requestContext"]["requestId"]


def test_an_offer_of_http2_is_ignored(http, endpoint, signed):
    """Java's HttpClient and `curl --http2` make it after the signature, which covers the body."""
    parts = signed(f"{endpoint.url}/", body=b'{"text": "hello"}', headers=JSON)
    offer = {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": "h2c",
        "http2-settings": "AAMAAABk",
    }
    response = http.request(**{**parts, "headers": {**parts["headers"], **offer}})
    assert response.status_code == 200
    assert response.json()["body"] == '{"text": "hello"}'


def test_an_unsigned_request_is_rejected(http, endpoint):
    """The response is 403 with AWS's error type and body."""
    response = http.post(endpoint.url, content=b"{}")
    assert response.status_code == 403
    assert response.headers["x-amzn-errortype"] == "AccessDeniedException"
    assert response.json()["Message"].startswith("Forbidden.")


@pytest.mark.parametrize(
    "path", ["/raise", "/exit", "/malformed", f"/large?bytes={PAYLOAD_LIMIT + 200}"]
)
def test_an_error_of_the_function_is_a_502_without_details(send, path):
    """The response is that of Lambda, and the next request succeeds."""
    response = send(path)
    assert (response.status_code, response.text) == (502, "Internal Server Error")
    assert send("/").status_code == 200


def test_a_timeout_of_the_function_is_a_502(echo, http, signed):
    """The emulator ends the request, its line says where to look, and the next one succeeds."""
    printed = io.StringIO()
    runtime = EmulatedRuntime(dataclasses.replace(echo, timeout=5), binary=emulator_binary())
    verifier = Verifier(credentials=Credentials("AKIDEXAMPLE", "a secret"), region="us-east-1")
    with LocalFunctionUrl(runtime=runtime, verifier=verifier, requests=printed) as local:
        slow = http.request(**signed(local.url + "/sleep?seconds=600"))
        assert (slow.status_code, slow.text) == (502, "Internal Server Error")
        # A busy machine may need more than the five seconds to start the function again.
        again = (http.request(**signed(local.url + "/")).status_code for _ in range(20))
        assert 200 in again
    assert re.match(r"POST /sleep 502, \d+ ms; --verbose shows", printed.getvalue())


def test_responses_are_unchanged(send):
    """The status and a binary body are those of the function."""
    response = send("/binary")
    assert (response.status_code, response.content) == (201, b"\x00\x01\x02\xff")
    assert send("/bare").json() == [1, 2, 3]


def test_a_request_below_the_limit_is_accepted(send):
    """The body has almost 6 MB."""
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
    """The limit of 6 MB applies to the event, with base64."""
    response = send(body=b"x" * size, headers={"content-type": content_type})
    assert response.status_code == 413
    assert response.json()["message"].startswith("Request must be smaller than 6291456 bytes")


def test_chunked_bodies_are_read(http, endpoint, signed):
    """The function receives the complete body."""
    request = signed(endpoint.url + "/", body=b"one two", headers=JSON)
    headers = {
        name: value
        for name, value in request["headers"].items()
        if name.lower() != "content-length"
    }
    response = http.post(endpoint.url + "/", content=iter([b"one ", b"two"]), headers=headers)
    assert response.json()["body"] == "one two"


def test_concurrent_requests_are_queued(send):
    """All of many concurrent requests succeed."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bodies = [str(number).encode() for number in range(64)]
        responses = pool.map(lambda body: send(body=body, headers=JSON).json()["body"], bodies)
        assert list(responses) == [body.decode() for body in bodies]


def test_the_function_has_only_lambdas_environment(send, monkeypatch):
    """It receives Lambda's variables and its own, but not those of this shell."""
    monkeypatch.setenv("A_VARIABLE_OF_THIS_SHELL", "1")
    environment = send("/environment").json()
    assert environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "1769"
    assert "A_VARIABLE_OF_THIS_SHELL" not in environment


def test_the_function_exits_with_a_killed_server(tmp_path):
    """The emulator and the function exit when the server is killed."""
    program = textwrap.dedent("""
        import json, sys
        from pathlib import Path
        from tools.local_endpoint.runtime import Function, start
        runtime = start(Function(handler="echo.handler", source_root=Path(sys.argv[1])))
        response = json.loads(runtime.invoke(json.dumps({"rawPath": "/environment"}).encode()))
        print(json.loads(response["body"])["pid"], flush=True)
        sys.stdin.read()
    """)
    command = [sys.executable, "-c", program, str(Path(__file__).parent)]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        function = int(server.stdout.readline())
        server.send_signal(signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{function}").exists())


INVOKE = "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aa%3Ab%3Afunction%3Aecho/invocations"


def test_a_function_is_invoked_without_its_url(send):
    """The event of the caller reaches the function as it is, and its result comes back."""
    event = {"rawPath": "/binary", "mine": "ü"}
    response = send(f"{INVOKE}?Qualifier=live", body=json.dumps(event).encode())
    assert response.status_code == 200
    assert response.json()["isBase64Encoded"] is True
    echoed = send(INVOKE, body=json.dumps({"rawPath": "/", "mine": "ü"}).encode())
    assert json.loads(echoed.json()["body"])["mine"] == "ü"


def test_an_invocation_that_fails_has_lambdas_header(send):
    """The status is 200, and the payload is the runtime's error."""
    response = send(INVOKE, body=b'{"rawPath": "/raise"}')
    assert response.status_code == 200
    assert response.headers["x-amz-function-error"] == "Unhandled"
    assert response.json()["errorType"] == "ValueError"
    assert response.json()["errorMessage"] == "the inside of the function"


def test_an_invocation_needs_json_and_a_signature(send, http, endpoint):
    """Lambda refuses an event that is not JSON, and a caller without a signature."""
    response = send(INVOKE, body=b"no JSON")
    assert response.status_code == 400
    assert response.headers["x-amzn-errortype"] == "InvalidRequestContentException"
    assert http.post(endpoint.url + INVOKE, content=b"{}").status_code == 403
