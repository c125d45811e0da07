"""Serves a function at a local Function URL with IAM auth, and by Lambda's Invoke."""

import json
import sys
import threading
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Self

from tools.local_endpoint.bodies import BodyError, check_length, read_body, too_large
from tools.local_endpoint.events import INTERNAL_SERVER_ERROR, Response, to_event, to_response
from tools.local_endpoint.invocations import invoke, is_invocation
from tools.local_endpoint.runtime import FunctionError, Runtime
from tools.local_endpoint.signature import SignatureError, SignedRequest, Verifier
from tools.local_endpoint.sigv4_parsing import parse_signature

__all__ = ["PAYLOAD_LIMIT", "LocalFunctionUrl"]

# The limit of the event, with the base64 of the body: "Request must be smaller than 6291456 bytes".
# The limit of responses is 100 bytes higher. The emulator checks it.
PAYLOAD_LIMIT = 6 * 1024 * 1024


class LocalFunctionUrl:
    """Serves a function to signed requests.

    Use it as a context manager. A background thread serves requests until the block ends. At the
    end, it closes the runtime.

    Args:
        runtime: Runs the function.
        verifier: Verifies the signatures.
        port: The port on 127.0.0.1. 0 selects a free port.
    """

    def __init__(self, *, runtime: Runtime, verifier: Verifier, port: int = 0) -> None:
        self._runtime = runtime
        handler = type("_BoundHandler", (_Handler,), {"runtime": runtime, "verifier": verifier})
        try:
            self._server = _Server(("127.0.0.1", port), handler)
        except OSError:
            runtime.close()
            raise
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The URL, without a trailing slash."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._runtime.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore callers that close the connection. Print other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one write for headers and body
    runtime: ClassVar[Runtime]
    verifier: ClassVar[Verifier]

    def _serve(self) -> None:
        request_id = str(uuid.uuid4())
        try:
            response = self._respond(request_id)
        except BodyError as error:
            self.close_connection = True
            response = _error_response(error.status, error.message)
        self._send(response, request_id)

    def _respond(self, request_id: str) -> Response:
        request = self._request(read_body(self.headers, self.rfile, limit=PAYLOAD_LIMIT))
        try:
            caller = self.verifier.verify(request)
        except SignatureError as error:
            return _forbidden(error)
        if is_invocation(request.method, request.target):
            return invoke(self.runtime, request.body)
        event = to_event(
            request, caller=caller, source_ip=self.client_address[0], request_id=request_id
        )
        if len(event) > PAYLOAD_LIMIT:
            raise too_large(PAYLOAD_LIMIT)
        try:
            return to_response(self.runtime.invoke(event))
        except FunctionError:
            return INTERNAL_SERVER_ERROR

    def handle_expect_100(self) -> bool:
        """Respond to `Expect: 100-continue` (RFC 9110, section 10.1.1) before the body is sent.

        A request that is rejected regardless of its body receives the final response.
        """
        try:
            check_length(self.headers, limit=PAYLOAD_LIMIT)
            parse_signature(self._request(b""))
        except BodyError as error:
            response = _error_response(error.status, error.message)
        except SignatureError as error:
            response = _forbidden(error)
        else:
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
            self.wfile.flush()
            return True
        # The caller may still send the body, which must not be read as the next request.
        self.close_connection = True
        self._send(response, str(uuid.uuid4()))
        return False

    def _request(self, body: bytes) -> SignedRequest:
        headers = _joined(self.headers.items())
        return SignedRequest(method=self.command, target=self.path, headers=headers, body=body)

    def _send(self, response: Response, request_id: str) -> None:
        self.send_response_only(response.status, responses.get(response.status, ""))
        self.send_header("Date", self.date_time_string())
        for name, value in response.headers.items():
            if name not in {"content-length", "connection", "date", "transfer-encoding"}:
                self.send_header(name, value.replace("\r", " ").replace("\n", " "))
        for cookie in response.cookies:
            self.send_header("set-cookie", cookie)
        self.send_header("x-amzn-requestid", request_id)
        self.send_header("content-length", str(len(response.body)))
        self.send_header("connection", "close" if self.close_connection else "keep-alive")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)
        self.wfile.flush()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815  (names of the base class)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (overrides the base class)
        """Log nothing. The function logs requests."""


def _joined(headers: list[tuple[str, str]]) -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]},{value.strip()}" if key in joined else value.strip()
    return joined


def _forbidden(error: SignatureError) -> Response:
    return Response(
        status=403,
        headers={"content-type": "application/json", "x-amzn-errortype": error.error_type},
        body=json.dumps(error.body).encode(),
    )


def _error_response(status: int, message: str) -> Response:
    body = json.dumps({"message": message}).encode()
    return Response(status=status, headers={"content-type": "application/json"}, body=body)
