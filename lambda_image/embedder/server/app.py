"""The ASGI application: HTTP around `Router`, one coroutine for each request.

https://asgi.readthedocs.io/en/latest/specs/www.html

A request passes, in this order: the paths of load balancers, its key, the bounds of its key, its
body. Then another thread answers it, and the queue below the engine decides when the model runs for
it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from embedder.core import errors
from embedder.core.errors import fault
from embedder.http.apis.operation import json_response
from embedder.http.http_types import MAX_REQUEST_BYTES, Request, Response, usable_id
from embedder.http.router import Router, new_request_id
from embedder.http.telemetry import RequestRecord
from embedder.server.options import ServerOptions
from embedder.server.queue import BatchingSession, ClientGoneError
from embedder.server.server_request import ServerLog, ServerRequest

if TYPE_CHECKING:  # What is off is not imported.
    from embedder.server.keys import Keys
    from embedder.server.metrics import Metrics
    from embedder.server.traces import Tracer

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Load balancers and orchestrators ask these. `/health` is the router's own path.
STATUS_PATHS = ("/live", "/ping", "/ready")
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


class Additions(NamedTuple):
    """Additions around a request; None is off, and costs a request nothing."""

    keys: "Keys | None" = None
    metrics: "Metrics | None" = None
    tracer: "Tracer | None" = None


class App:
    """Answers requests, with the session of the router's engine and the router's telemetry."""

    def __init__(
        self,
        router: Router,
        *,
        queue: BatchingSession,
        log: ServerLog,
        options: ServerOptions,
        additions: Additions,
    ) -> None:
        self._router, self._queue, self._log = router, queue, log
        self._options, self._additions = options, additions
        #: Whether the server is about to stop: load balancers learn it from `/ready`.
        self.draining = False
        # One thread for each request: it tokenizes, waits for the model, and renders.
        self._threads = ThreadPoolExecutor(_THREADS, "request")
        #: Requests by key, those with a body that is there, and the bytes of all its bodies.
        self._requests: Counter[str] = Counter()
        self._body_bytes: Counter[str] = Counter()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        method, path, headers = scope["method"], scope["path"], _headers(scope["headers"])
        response = self._answer_about_itself(method, path, headers)
        if response is not None:
            await self._send(send, response)
            return
        request_id = usable_id(headers.get("x-request-id")) or new_request_id()
        await self._respond(ServerRequest(request_id, method, path, headers), receive, send)

    @property
    def tracer(self) -> "Tracer | None":
        """Traces, if they are on; its span has to be around the application."""
        return self._additions.tracer

    def close(self) -> None:
        """End the threads; nothing is asked of them any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answer_about_itself(
        self, method: str, path: str, headers: Mapping[str, str]
    ) -> Response | None:
        """Answer what is no request to the router: the state of the server, and its metrics."""
        metrics = self._additions.metrics if path == METRICS_PATH else None
        if metrics is None and path not in STATUS_PATHS:
            return None
        if method not in {"GET", "HEAD"}:
            allow = {"allow": "GET, HEAD"}
            return json_response({"status": "wrong method"}, status=405, headers=allow)
        response = self._state(path) if metrics is None else self._metrics(metrics, headers)
        return response._replace(body=b"") if method == "HEAD" else response

    def _metrics(self, metrics: "Metrics", headers: Mapping[str, str]) -> Response:
        keys = self._additions.keys
        try:
            if self._options.metrics_key and keys is not None:
                keys.authenticate(headers)
        except errors.UnauthorizedError as error:
            record = RequestRecord(new_request_id())
            return self._router.error_response(error, record, path=METRICS_PATH)
        body, content_type = metrics.render()
        return Response(200, body, {"content-type": content_type})

    def _state(self, path: str) -> Response:
        """Say whether the process should go on, and at `/ready` whether to send requests here."""
        if path == "/ready" and self.draining:
            return json_response({"status": "draining"}, status=503)
        if not self._queue.alive:  # Only a new process helps.
            return json_response({"status": "a worker ended"}, status=503)
        # The port opens after the model has run once.
        return json_response({"status": "ready" if path == "/ready" else "live"})

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
        request.cancelled = request.record.error == ClientGoneError.code
        if request.cancelled:
            request.record.status = _CLIENT_GONE
        if self.tracer is not None:  # The span ends with the answer.
            self.tracer.describe(request, self._log.fields(request))
        if not request.cancelled:
            await self._send(send, response)
        if self._additions.metrics is not None:
            self._additions.metrics.observe(request)
        self._log.finish(request)

    async def _answer(self, request: ServerRequest, receive: Receive) -> Response:
        """Return the router's response; what is raised becomes one, too."""
        if self._additions.keys is not None and request.path != _PUBLIC_PATH:
            request.ticket.key = self._additions.keys.authenticate(request.headers)
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
        deadline = time.monotonic() + self._options.timeout
        routed = Request(
            method=request.method,
            path=request.path,
            headers=request.headers,
            body=decoded,
            id=request.id,
            deadline=deadline,
        )
        response, record = await self._in_thread(request, routed, receive)
        request.finish(record)
        return response

    def _check(self, request: ServerRequest) -> None:
        """Refuse a request whose key has as many as it may have, or as much work that waits."""
        self._queue.check(request.ticket.key)
        self._check_bound(
            request, self._requests, 1, "requests", self._options.max_concurrent_requests
        )

    def _hold(self, request: ServerRequest, size: int) -> None:
        """Refuse a request of which more has arrived than there is room for."""
        self._check_bound(request, self._body_bytes, size, "bytes of bodies", _BODY_BYTES)
        self._body_bytes[request.ticket.key] += size
        request.body_bytes += size

    def _check_bound(
        self, request: ServerRequest, held: Counter[str], amount: int, unit: str, limit: int
    ) -> None:
        key = request.ticket.key
        if held[key] + amount > limit:
            raise self._queue.refusal(key, held[key], unit, limit)

    async def _read_body(self, request: ServerRequest, receive: Receive) -> bytes:
        """Return a body, up to a limit of bytes and of time."""
        pieces: list[bytes] = []
        incomplete = True
        try:
            async with asyncio.timeout(self._options.body_timeout):
                while incomplete:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError("The client has closed the connection.")
                    piece, incomplete = message.get("body", b""), message.get("more_body", False)
                    self._hold(request, len(piece))
                    if request.body_bytes > MAX_REQUEST_BYTES:
                        raise _too_large(f"more than {MAX_REQUEST_BYTES}")
                    pieces.append(piece)
        except TimeoutError:
            raise errors.SlowBodyError(
                f"The body was not there after {self._options.body_timeout:g} s.",
                headers={"connection": "close"},
            ) from None
        return b"".join(pieces)

    async def _in_thread(
        self, request: ServerRequest, routed: Request, receive: Receive
    ) -> tuple[Response, RequestRecord]:
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
            return await asyncio.shield(answer)
        finally:
            gone.cancel()

    def _handle(self, request: ServerRequest, routed: Request) -> tuple[Response, RequestRecord]:
        in_turn = len(routed.body) > _SMALL_BODY_BYTES
        with self._queue.request(request.ticket, in_turn=in_turn, deadline=routed.deadline):
            record = RequestRecord(routed.id)
            return self._router.handle(routed, record), record

    def _error(self, error: errors.AnswerableError, request: ServerRequest) -> Response:
        record = RequestRecord(request.id)
        response = self._router.error_response(error, record, path=request.path)
        request.finish(record)
        return response

    async def _send(self, send: Send, response: Response) -> None:
        headers = {**response.headers, "content-length": str(len(response.body))}
        if self.draining:
            # The client's next request goes to another server.
            headers["connection"] = "close"
        pairs = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": response.status, "headers": pairs})
        await send({"type": "http.response.body", "body": response.body})


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers, names in lower case; values of one name are joined, as Lambda does."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


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
