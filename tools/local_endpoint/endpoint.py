"""Serves an artifact's function at a local Function URL with IAM auth, and by Lambda's Invoke.

Invoke as far as a caller of one function needs it:
https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

import asyncio
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self

from botocore.credentials import Credentials

from embedder.server.http_protocol import joined_headers, plain_server
from tools.local_endpoint import chunk_route
from tools.local_endpoint.chunk_route import ChunkRoute
from tools.local_endpoint.events import INTERNAL_SERVER_ERROR, LambdaResponse, to_event, to_response
from tools.local_endpoint.models import ROOT
from tools.local_endpoint.runtime import Function, FunctionError, Runtime, start
from tools.local_endpoint.search_page import SearchPage
from tools.local_endpoint.signature import SignatureError, SignedRequest, Verifier

# The limit of the event, with the base64 of the body: "Request must be smaller than 6291456 bytes".
# The limit of responses is 100 bytes higher. The emulator checks it.
PAYLOAD_LIMIT = 6 * 1024 * 1024
# A body over the limit is read up to this size, so that the caller can read the response.
_READ_LIMIT = 64 * 1024 * 1024
_INVOCATION = re.compile(r"/2015-03-31/functions/[^/?]+/invocations(\?.*)?")
#: Headers that the HTTP server writes itself.
_OF_SERVER = {"content-length", "connection", "date", "transfer-encoding"}
#: What the function needs to call AWS. On Lambda, it has the keys of its role.
_CALLING_AWS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL_S3VECTORS",
)

_Message = dict[str, Any]


def key_pair() -> Credentials:
    """Return the accepted key pair, from the environment, or else `local` and `local`."""
    access_key = os.environ.get("AWS_ACCESS_KEY_ID")
    secret_key = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if access_key and secret_key:
        return Credentials(access_key, secret_key)
    return Credentials("local", "local")


def region() -> str:
    """Return the region that requests must be signed for."""
    return os.environ.get("AWS_REGION") or "us-east-1"


def endpoint(
    artifact: Path,
    *,
    index: Path | None = None,
    vector_index: str | None = None,
    port: int = 0,
    memory: int = 1769,
    timeout: int = 60,
    mcp: bool = False,
    assistant: str | None = None,
    logs: IO[str] | None = None,
    requests: IO[str] | None = None,
) -> tuple["LocalFunctionUrl", Runtime]:
    """Return a local Function URL, which is a context manager to enter, and its runtime.

    `assistant` is the address of an app that answers the questions of the search page.
    """
    variables = {"EMBEDDING_ARTIFACT": str(artifact)}
    if mcp:
        variables["EMBEDDING_MCP"] = "on"
    if index is not None:
        variables["EMBEDDING_INDEX"] = str(index)
    if vector_index is not None:
        variables["EMBEDDING_VECTOR_INDEX"] = vector_index
        variables |= {name: os.environ[name] for name in _CALLING_AWS if name in os.environ}
    function = Function(
        handler="embedder.aws_lambda.handler.handler",
        source_root=ROOT / "lambda_image",
        environment=variables,
        memory=memory,
        timeout=timeout,
    )
    runtime = start(function, logs=logs)
    verifier = Verifier(credentials=key_pair(), region=region())
    url = LocalFunctionUrl(
        runtime=runtime,
        verifier=verifier,
        chunks=ChunkRoute(artifact),
        page=None if index is None else SearchPage(runtime, index, assistant),
        port=port,
        requests=requests,
    )
    return url, runtime


class LocalFunctionUrl:
    """Serves signed requests in a thread until its `with` block ends; then closes the runtime."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        verifier: Verifier,
        chunks: ChunkRoute | None = None,
        page: SearchPage | None = None,
        port: int = 0,
        requests: IO[str] | None = None,
    ) -> None:
        self._runtime, self._verifier, self._requests = runtime, verifier, requests
        self._chunks, self._page = chunks, page
        try:
            listening = socket.create_server(("127.0.0.1", port), backlog=128)
        except OSError:
            runtime.close()
            raise
        #: The URL, without a trailing slash.
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._server = plain_server(self._serve)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._runtime.close()

    async def _serve(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Answer a request: the ASGI application."""
        request_id, began = str(uuid.uuid4()), time.perf_counter()
        is_chunked = self._chunks is not None and scope["path"].rstrip("/") == chunk_route.PATH
        limit = chunk_route.MAX_BYTES if is_chunked else PAYLOAD_LIMIT
        body, size = bytearray(), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size += len(message["body"])
            if size <= limit:
                body += message["body"]
            if not message["more_body"] or size > _READ_LIMIT:
                break
        query = scope["query_string"]
        request = SignedRequest(
            method=scope["method"],
            target=(scope["raw_path"] + (b"?" + query if query else b"")).decode("latin-1"),
            headers=joined_headers(scope["headers"]),
            body=bytes(body),
        )
        if size > limit:
            response = _too_large(limit)
        else:
            caller = scope["client"][0]
            response = await asyncio.to_thread(self._respond, request, caller, request_id)
        headers = [
            (name, value.replace("\r", " ").replace("\n", " "))
            for name, value in response.headers.items()
            if name not in _OF_SERVER
        ]
        headers += [("x-amzn-requestid", request_id), ("content-length", str(len(response.body)))]
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": response.status, "headers": encoded})
        await send({"type": "http.response.body", "body": response.body})
        if self._requests:
            milliseconds = 1000 * (time.perf_counter() - began)
            line = f"{scope['method']} {scope['path']} {response.status}, {milliseconds:.0f} ms"
            hint = "; --verbose shows the function's log" if response.status >= 500 else ""
            self._requests.write(f"{line}{hint}\n")

    def _respond(self, request: SignedRequest, source_ip: str, request_id: str) -> LambdaResponse:
        if self._page is not None and self._page.takes(request):
            return self._page.respond(request, request_id)
        try:
            access_key = self._verifier.verify(request).access_key
        except SignatureError as error:
            return _json(403, error.body, {"x-amzn-errortype": error.error_type})
        path = request.target.partition("?")[0].rstrip("/")
        if self._chunks is not None and path == chunk_route.PATH:
            return self._chunks.respond(request.method, request.body, request_id)
        return self._invoked(request, access_key, source_ip, request_id)

    def _invoked(
        self, request: SignedRequest, access_key: str, source_ip: str, request_id: str
    ) -> LambdaResponse:
        """Have the function answer a request with a valid signature."""
        if request.method == "POST" and _INVOCATION.fullmatch(request.target):
            return _invoke(self._runtime, request.body)
        event = to_event(request, access_key=access_key, source_ip=source_ip, request_id=request_id)
        if len(event) > PAYLOAD_LIMIT:
            return _too_large(PAYLOAD_LIMIT)
        try:
            return to_response(self._runtime.invoke(event))
        except FunctionError:
            return INTERNAL_SERVER_ERROR


def _too_large(limit: int) -> LambdaResponse:
    """Return Lambda's error for a request over a limit in bytes."""
    allowed = f"smaller than {limit} bytes"
    return _json(413, {"message": f"Request must be {allowed} for the InvokeFunction operation"})


def _invoke(runtime: Runtime, event: bytes) -> LambdaResponse:
    """Pass an event to the function. Return its result, or its error with Lambda's header."""
    try:
        json.loads(event or b"null")
    except ValueError:
        refused = {"Type": "User", "message": "Could not parse request body into json"}
        return _json(400, refused, {"x-amzn-errortype": "InvalidRequestContentException"})
    executed = {"content-type": "application/json", "x-amz-executed-version": "$LATEST"}
    try:
        return LambdaResponse(status=200, headers=executed, body=runtime.invoke(event or b"null"))
    except FunctionError as error:
        failed = {**executed, "x-amz-function-error": "Unhandled"}
        return LambdaResponse(status=200, headers=failed, body=_payload(str(error)))


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
) -> LambdaResponse:
    json_type = {"content-type": "application/json"}
    return LambdaResponse(
        status=status, headers={**json_type, **(headers or {})}, body=json.dumps(body).encode()
    )
