"""A Function URL with IAM auth on this machine: HTTP in, signature check, function."""

import json
import sys
import threading
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import ClassVar, Self

from local_function_url.bodies import BodyError, check_length, read_body
from local_function_url.claims import claim_of
from local_function_url.events import INTERNAL_SERVER_ERROR, Answer, to_answer, to_event
from local_function_url.runtime import FunctionError, Runtime
from local_function_url.signature import SignatureError, SignedRequest, Verifier

__all__ = ["PAYLOAD_LIMIT", "LocalFunctionUrl"]

# Of the event that carries a request, base64 and all: "Request must be smaller than 6291456 bytes".
# Responses may have 100 bytes more, which the emulator checks.
PAYLOAD_LIMIT = 6 * 1024 * 1024
_TOO_LARGE = f"Request must be smaller than {PAYLOAD_LIMIT} bytes for the InvokeFunction operation"


class LocalFunctionUrl:
    """Serves a runtime's function to whoever signs for it.

    Use it as a context manager: requests are served from a thread of its own until the block ends.
    It owns the runtime and closes it.

    Args:
        runtime: where the function runs.
        verifier: whose signatures are accepted.
        port: where to listen on 127.0.0.1; 0 takes a free one.
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
        """The URL to send requests to, without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._runtime.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Keeps quiet about callers that hang up; other faults are told as usual."""
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
            answer = self._answer(request_id)
        except BodyError as error:
            self.close_connection = True
            answer = _refused(error.status, error.message)
        self._send(answer, request_id)

    def _answer(self, request_id: str) -> Answer:
        request = self._request(read_body(self.headers, self.rfile, limit=PAYLOAD_LIMIT))
        try:
            caller = self.verifier.verify(request)
        except SignatureError as refusal:
            return _forbidden(refusal)
        event = to_event(
            request, caller=caller, source_ip=self.client_address[0], request_id=request_id
        )
        if len(event) > PAYLOAD_LIMIT:
            return _refused(413, _TOO_LARGE)
        try:
            return to_answer(self.runtime.invoke(event))
        except FunctionError:
            return INTERNAL_SERVER_ERROR

    def handle_expect_100(self) -> bool:
        """Answers `Expect: 100-continue` (RFC 9110, section 10.1.1), before the body is sent.

        A request that is refused whatever its body is gets its final answer instead.
        """
        try:
            check_length(self.headers, limit=PAYLOAD_LIMIT)
            claim_of(self._request(b""))
        except BodyError as error:
            refusal = _refused(error.status, error.message)
        except SignatureError as error:
            refusal = _forbidden(error)
        else:
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
            self.wfile.flush()
            return True
        # The body may follow all the same, and must not be read as the next request.
        self.close_connection = True
        self._send(refusal, str(uuid.uuid4()))
        return False

    def _request(self, body: bytes) -> SignedRequest:
        headers = _joined(self.headers.items())
        return SignedRequest(method=self.command, target=self.path, headers=headers, body=body)

    def _send(self, answer: Answer, request_id: str) -> None:
        self.send_response_only(answer.status, responses.get(answer.status, ""))
        self.send_header("Date", self.date_time_string())
        for name, value in answer.headers.items():
            if name not in {"content-length", "connection", "date", "transfer-encoding"}:
                self.send_header(name, value.replace("\r", " ").replace("\n", " "))
        for cookie in answer.cookies:
            self.send_header("set-cookie", cookie)
        self.send_header("x-amzn-requestid", request_id)
        self.send_header("content-length", str(len(answer.body)))
        self.send_header("connection", "close" if self.close_connection else "keep-alive")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class names it so)
        """Logs nothing: the function's own log tells about requests."""


def _joined(headers: list[tuple[str, str]]) -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]},{value.strip()}" if key in joined else value.strip()
    return joined


def _forbidden(refusal: SignatureError) -> Answer:
    return Answer(
        status=403,
        headers={"content-type": "application/json", "x-amzn-errortype": refusal.error_type},
        body=json.dumps(refusal.body).encode(),
    )


def _refused(status: int, message: str) -> Answer:
    body = json.dumps({"message": message}).encode()
    return Answer(status=status, headers={"content-type": "application/json"}, body=body)
