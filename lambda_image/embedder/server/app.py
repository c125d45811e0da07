"""The ASGI application: HTTP around `Router`, one coroutine for each request.

https://asgi.readthedocs.io/en/latest/specs/www.html

A request passes, in this order: the paths of load balancers, its key, the bounds of its key, its
body. Then another thread answers it, and the queue below the engine decides when the model runs for
it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from embedder.core import errors
from embedder.core.errors import fault
from embedder.http.apis.operation import json_response
from embedder.http.http_types import MAX_REQUEST_BYTES, Request, Response, usable_id
from embedder.http.router import Router, new_request_id
from embedder.http.telemetry import RequestRecord
from embedder.server.http_protocol import joined_headers
from embedder.server.keys import Keys
from embedder.server.metrics import Metrics
from embedder.server.options import ServerOptions
from embedder.server.queue import BatchingSession, ClientGoneError
from embedder.server.server_request import ServerLog, ServerRequest

if TYPE_CHECKING:  # It takes a good part of a start, and is imported only if it is on.
    from embedder.server.traces import Tracer

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Load balancers and orchestrators ask these. `/health` is the router's own path.
STATUS_PATHS = ("/live", "/ready")
METRICS_PATH = "/metrics"
#: The most bytes of a key's bodies in memory: they come faster than they are answered.
_BODY_BYTES = 4 * MAX_REQUEST_BYTES
#: A larger body is a list, or a text that is cut.
_SMALL_BODY_BYTES = 6 * 256
#: Threads are made when they are needed, and the requests have another bound.
_THREADS = 1 << 16
#: Answered without a key, for load balancers that ask it.
_PUBLIC_PATH = "/health"
#: nginx's status for a client that closed the connection; only the log and the metrics see it.
_CLIENT_GONE = 499


class App:
    """Answers requests, with the session of the router's engine and the router's telemetry.

    Without `keys` everyone may call; `tracer` is None if traces are off.
    """

    def __init__(
        self,
        router: Router,
        *,
        queue: BatchingSession,
        log: ServerLog,
        options: ServerOptions,
        keys: Keys | None = None,
        tracer: "Tracer | None" = None,
    ) -> None:
        self._router, self._queue, self._log = router, queue, log
        self._options, self._keys = options, keys
        self._metrics = Metrics(queue)
        self.tracer = tracer
        # One thread for each request: it tokenizes, waits for the model, and renders.
        self._threads = ThreadPoolExecutor(_THREADS, "request")
        #: Requests by key, those with a body that is there, and the bytes of all its bodies.
        self._requests: Counter[str] = Counter()
        self._body_bytes: Counter[str] = Counter()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        path, headers = scope["path"], joined_headers(scope["headers"])
        if path in STATUS_PATHS:  # The port opens after the model has run once.
            await self._send(send, json_response({"status": path[1:]}))
        elif path == METRICS_PATH:
            await self._send(send, self._render_metrics(headers))
        else:
            record = RequestRecord(usable_id(headers.get("x-request-id")) or new_request_id())
            request = ServerRequest(scope["method"], path, headers, record)
            await self._respond(request, receive, send)

    def close(self) -> None:
        """End the threads; nothing is asked of them any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _render_metrics(self, headers: Mapping[str, str]) -> Response:
        """Return the metrics, to callers with a key: they name all callers."""
        try:
            if self._keys is not None:
                self._keys.authenticate(headers)
        except errors.UnauthorizedError as error:
            record = RequestRecord(new_request_id())
            return self._router.error_response(error, record, path=METRICS_PATH)
        body, content_type = self._metrics.render()
        return Response(200, body, {"content-type": content_type})

    async def _respond(self, request: ServerRequest, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(request, receive)
        except errors.AnswerableError as error:
            response = self._error(error, request)
        except asyncio.CancelledError:  # The last second of the server is over.
            response = self._error(errors.ShuttingDownError(), request)
        except Exception as error:  # The caller gets a response, and the log the place.
            response = self._error(errors.ServerError(), request)
            request.record.fault = fault(error)
        finally:
            self._requests[request.ticket.key] -= request.admitted
            self._body_bytes[request.ticket.key] -= request.body_bytes
        request.record.started = request.started
        request.seconds = time.perf_counter() - request.started
        is_client_gone = request.record.error == ClientGoneError.code
        if is_client_gone:
            request.record.status = _CLIENT_GONE
        if self.tracer is not None:  # The span ends with the answer.
            self.tracer.describe(request, self._log.fields(request))
        if not is_client_gone:
            await self._send(send, response)
        self._metrics.observe(request)
        self._log.finish(request)

    async def _answer(self, request: ServerRequest, receive: Receive) -> Response:
        """Return the router's response; what is raised becomes one, too."""
        if self._keys is not None and request.path != _PUBLIC_PATH:
            request.ticket.key = self._keys.authenticate(request.headers)
        # The parser has checked that it is a number; uvicorn drops what is not read.
        declared = int(request.headers.get("content-length", "0"))
        if declared > MAX_REQUEST_BYTES:
            raise _too_large(f"{declared}")
        self._check(request)
        body = await self._read_body(request, receive)
        # It counts when its body is there: one that is still uploaded takes nothing from others.
        self._check(request)
        self._requests[request.ticket.key] += 1
        request.admitted = True
        decoded = _decoded(body, request.headers)
        if decoded is not body:
            self._hold(request, len(decoded))
        routed = Request(
            method=request.method,
            path=request.path,
            headers=request.headers,
            body=decoded,
            deadline=time.monotonic() + self._options.timeout,
        )
        return await self._in_thread(request, routed, receive)

    def _check(self, request: ServerRequest) -> None:
        """Refuse a request whose key has as many as it may have, or as much work that waits."""
        key, limit = request.ticket.key, self._options.max_concurrent_requests
        self._queue.check(key)
        if self._requests[key] >= limit:
            raise self._queue.refusal(key, self._requests[key], "requests", limit)

    def _hold(self, request: ServerRequest, size: int) -> None:
        """Refuse a request of which more has arrived than there is room for."""
        key = request.ticket.key
        if self._body_bytes[key] + size > _BODY_BYTES:
            raise self._queue.refusal(key, self._body_bytes[key], "bytes of bodies", _BODY_BYTES)
        self._body_bytes[key] += size
        request.body_bytes += size

    async def _read_body(self, request: ServerRequest, receive: Receive) -> bytes:
        """Return a body, up to a limit of bytes; its connection has one of time."""
        pieces: list[bytes] = []
        incomplete = True
        while incomplete:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError("The client has closed the connection.")
            piece, incomplete = message.get("body", b""), message.get("more_body", False)
            self._hold(request, len(piece))
            if request.body_bytes > MAX_REQUEST_BYTES:
                raise _too_large(f"more than {MAX_REQUEST_BYTES}")
            pieces.append(piece)
        return b"".join(pieces)

    async def _in_thread(
        self, request: ServerRequest, routed: Request, receive: Receive
    ) -> Response:
        """Answer a request in a thread, and drop its runs if its client goes."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.run_in_executor(
            self._threads, self._handle, request, routed
        )
        gone: asyncio.Future[Any] = loop.create_task(_disconnected(receive))
        try:
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self._queue.cancel(request.ticket)
            response: Response = await asyncio.shield(answer)
            return response
        finally:
            gone.cancel()

    def _handle(self, request: ServerRequest, routed: Request) -> Response:
        in_turn, record = len(routed.body) > _SMALL_BODY_BYTES, request.record
        with self._queue.request(request.ticket, in_turn=in_turn, deadline=routed.deadline):
            record.started = time.perf_counter()
            return self._router.handle(routed, record)

    def _error(self, error: errors.AnswerableError, request: ServerRequest) -> Response:
        # Its thread may still fill in the record that it has.
        request.record = record = RequestRecord(request.record.id)
        return self._router.error_response(error, record, path=request.path)

    async def _send(self, send: Send, response: Response) -> None:
        headers = {**response.headers, "content-length": str(len(response.body))}
        pairs = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": pairs})
        await send({"type": "http.response.body", "body": response.body})


def _too_large(size: str) -> errors.BodyTooLargeError:
    return errors.BodyTooLargeError(
        f"The body has {size} bytes; at most {MAX_REQUEST_BYTES} are allowed."
    )


def _decoded(body: bytes, headers: Mapping[str, str]) -> bytes:
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        return body
    from embedder.http.compression import decoded  # noqa: PLC0415 - hardly a request is in gzip

    return decoded(body, encoding, MAX_REQUEST_BYTES)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
