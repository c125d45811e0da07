"""The emulated provider framework sends the handler's answer or error to CloudFormation."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tools.rehearsal.deploy.provider_framework import relay


class Handlers:
    """A Lambda client whose functions return a test's answers."""

    class exceptions:  # noqa: N801  (as botocore names it)
        """The client's own errors."""

        ClientError = ValueError

    def __init__(self, answer: Any, *, fails: bool = False) -> None:
        self.answer, self.fails = answer, fails
        self.asked: list[dict[str, Any]] = []

    def invoke(self, *, FunctionName: str, Payload: str) -> dict[str, Any]:  # noqa: ARG002, N803
        """Answer an event."""
        self.asked.append(json.loads(Payload))
        error = {"FunctionError": "Unhandled"} if self.fails else {}
        return {"Payload": io.BytesIO(json.dumps(self.answer).encode()), **error}


@pytest.fixture
def cloudformation() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """CloudFormation's response URL, and the responses that it received."""
    responses: list[dict[str, Any]] = []

    class _Waits(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            responses.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), _Waits) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token", responses
        server.shutdown()
        thread.join()


def event(url: str, kind: str, **more: Any) -> dict[str, Any]:
    """Make an event of CloudFormation's."""
    return {
        "RequestType": kind,
        "ResponseURL": url,
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Check",
        **more,
    }


def test_a_result_is_a_success(cloudformation):
    """It has the physical id and the attributes. The handler does not get the response URL."""
    url, responses = cloudformation
    handlers = Handlers({"PhysicalResourceId": "check", "Data": {"VectorSpace": "m/384"}})
    relay(event(url, "Create"), handlers, "arn")
    assert [(t["Status"], t["PhysicalResourceId"], t["Data"]) for t in responses] == [
        ("SUCCESS", "check", {"VectorSpace": "m/384"})
    ]
    assert handlers.asked[0]["ResponseURL"] == "..."


def test_the_physical_id_has_a_default(cloudformation):
    """It is the previous one, or the id of the request for a new resource."""
    url, responses = cloudformation
    relay(event(url, "Create"), Handlers({}), "arn")
    relay(event(url, "Update", PhysicalResourceId="before"), Handlers(None), "arn")
    assert [t["PhysicalResourceId"] for t in responses] == ["request", "before"]


def test_an_error_is_a_failure_with_its_reason(cloudformation):
    """After a failed Create, the Delete does not invoke the handler."""
    url, responses = cloudformation
    handlers = Handlers({"errorMessage": "refused", "errorType": "E"}, fails=True)
    relay(event(url, "Create"), handlers, "arn")
    created = responses[0]["PhysicalResourceId"]
    relay(event(url, "Delete", PhysicalResourceId=created), handlers, "arn")
    relay(event(url, "Update", PhysicalResourceId="before"), handlers, "arn")
    assert [(t["Status"], t.get("Reason")) for t in responses] == [
        ("FAILED", "refused"),
        ("SUCCESS", None),
        ("FAILED", "refused"),
    ]
    assert responses[2]["PhysicalResourceId"] == "before"
    assert [asked["RequestType"] for asked in handlers.asked] == ["Create", "Update"]
