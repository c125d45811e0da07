"""Serves a function at a local Function URL with IAM auth, and by Lambda's Invoke.

Invoke as far as a caller of one function needs it:
https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

import json
import re
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from email.message import Message
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import ClassVar, Self

from tools.local_endpoint.events import INTERNAL_SERVER_ERROR, Response, to_event, to_response
from tools.local_endpoint.runtime import FunctionError, Runtime
from tools.local_endpoint.signature import SignatureError, SignedRequest, Verifier

__all__ = ["PAYLOAD_LIMIT", "LocalFunctionUrl"]

# The limit of the event, with the base64 of the body: "Request must be smaller than 6291456 bytes".
# The limit of responses is 100 bytes higher. The emulator checks it.
PAYLOAD_LIMIT = 6 * 1024 * 1024
# A body over the limit is read up to this size, so that the caller can read the response.
_READ_LIMIT = 64 * 1024 * 1024
_PIECE = 64 * 1024
_INVOCATION = re.compile(r"/2015-03-31/functions/[^/?]+/invocations(\?.*)?")


class _RequestError(Exception):
    """A request that is too large or invalid: an HTTP status, and the reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.response = _json(status, {"message": message})


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
        except _RequestError as error:
            self.close_connection = True
            response = error.response
        self._send(response, request_id)

    def _respond(self, request_id: str) -> Response:
        request = SignedRequest(
            method=self.command,
            target=self.path,
            headers=_joined(self.headers.items()),
            body=_read_body(self.headers, self.rfile),
        )
        try:
            caller = self.verifier.verify(request)
        except SignatureError as error:
            return _json(403, error.body, {"x-amzn-errortype": error.error_type})
        if request.method == "POST" and _INVOCATION.fullmatch(request.target):
            return _invoke(self.runtime, request.body)
        event = to_event(
            request, caller=caller, source_ip=self.client_address[0], request_id=request_id
        )
        if len(event) > PAYLOAD_LIMIT:
            raise _too_large()
        try:
            return to_response(self.runtime.invoke(event))
        except FunctionError:
            return INTERNAL_SERVER_ERROR

    def handle_expect_100(self) -> bool:
        """Ask for the body; the answer must not wait in the buffer."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

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


def _read_body(headers: Message, stream: BufferedIOBase) -> bytes:
    """Return the body: with a Content-Length, or chunked."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        pieces = _chunks(stream)
    else:
        pieces = _pieces(stream, _length(headers))
    body = bytearray()
    total = 0
    for piece in pieces:
        total += len(piece)
        if total <= PAYLOAD_LIMIT:
            body += piece
        elif total > _READ_LIMIT:
            break
    if total > PAYLOAD_LIMIT:
        raise _too_large()
    return bytes(body)


def _length(headers: Message) -> int:
    declared = headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdigit()) or len(declared) > 18:
        raise _RequestError(
            400, f"Content-Length should be a number of bytes, got {declared[:40]!r}"
        )
    return int(declared)


def _pieces(stream: BufferedIOBase, length: int) -> Iterator[bytes]:
    while length:
        piece = stream.read(min(_PIECE, length))
        if not piece:
            raise _RequestError(400, f"the body ended {length} bytes before its Content-Length")
        length -= len(piece)
        yield piece


def _chunks(stream: BufferedIOBase) -> Iterator[bytes]:
    while True:
        header = stream.readline(100).split(b";")[0].strip()
        try:
            size = int(header, 16)
        except ValueError:
            raise _RequestError(400, "a chunk of the body has no size") from None
        if size < 0:
            raise _RequestError(400, "a chunk of the body has a negative size")
        yield from _pieces(stream, size)
        # The end of the chunk. After the last chunk, the first trailer or the end of the body.
        line = stream.readline(8192)
        while size == 0 and line.strip():
            line = stream.readline(8192)
        if size == 0:
            return


def _too_large() -> _RequestError:
    """Return Lambda's error for a request over the limit."""
    limit = f"smaller than {PAYLOAD_LIMIT} bytes"
    return _RequestError(413, f"Request must be {limit} for the InvokeFunction operation")


def _invoke(runtime: Runtime, event: bytes) -> Response:
    """Pass an event to the function. Return its result, or its error with Lambda's header."""
    try:
        json.loads(event or b"null")
    except ValueError:
        refused = {"Type": "User", "message": "Could not parse request body into json"}
        return _json(400, refused, {"x-amzn-errortype": "InvalidRequestContentException"})
    executed = {"content-type": "application/json", "x-amz-executed-version": "$LATEST"}
    try:
        return Response(status=200, headers=executed, body=runtime.invoke(event or b"null"))
    except FunctionError as error:
        return Response(
            status=200,
            headers={**executed, "x-amz-function-error": "Unhandled"},
            body=_payload(str(error)),
        )


def _payload(reason: str) -> bytes:
    """Return the runtime's own error, or the reason in its form."""
    try:
        if isinstance(json.loads(reason), dict):
            return reason.encode()
    except ValueError:
        pass
    return json.dumps({"errorType": "Sandbox.Error", "errorMessage": reason}).encode()


def _json(
    status: int, body: Mapping[str, object], headers: Mapping[str, str] | None = None
) -> Response:
    json_type = {"content-type": "application/json"}
    return Response(
        status=status, headers={**json_type, **(headers or {})}, body=json.dumps(body).encode()
    )
