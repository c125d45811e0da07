"""The ASGI application: HTTP around `Router`, one coroutine for each request.

https://asgi.readthedocs.io/en/latest/specs/www.html

A request passes, in this order: the paths of load balancers, the end of the server, its trace, its
key, its share of the server, its body. Then another thread answers it, and the queue below the
engine decides when the model runs for it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from embedder.core import errors
from embedder.core.errors import fault
from embedder.http.apis.operation import json_response
from embedder.http.http_types import MAX_REQUEST_BYTES, Request, Response, usable_id
from embedder.http.router import Router, new_request_id
from embedder.http.telemetry import RequestRecord
from embedder.server.exchange import AccessLog, Exchange
from embedder.server.queue import BatchingSession, ClientGoneError, Ticket
from embedder.server.settings import ServerSettings
from embedder.server.waiting_runs import Shares

if TYPE_CHECKING:  # What is off is not imported.
    from embedder.server.keys import Keys
    from embedder.server.metrics import Metrics
    from embedder.server.traces import Tracer

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Load balancers and orchestrators ask these. `/health` is the router's own path.
STATUS_PATHS = ("/live", "/ping", "/ready")
#: Bytes of a body for each token that is expected of it: English has four to five, and JSON is
#: around it. The true number is known when the texts are tokenized.
_BYTES_PER_TOKEN = 6
#: The most bytes of bodies in memory, of all requests: they come faster than they are answered.
_BODY_BYTES = 4 * MAX_REQUEST_BYTES
#: An upload has stalled if it brings less than these bytes in these seconds. It goes on as long as
#: nobody needs its room.
_PROGRESS_BYTES, _STALLED_SECONDS = 16 << 10, 1.0
#: A body over the limit is read and dropped up to this size, so that the client, which reads when
#: it has written, can read the error. Beyond it, the connection is closed.
_DROPPED_BYTES = 64 << 20
#: The last seconds of the server, which begin when what waits for the model is refused.
LAST_SECONDS = 1.0
#: Threads are made when they are needed, and the requests have another bound.
_THREADS = 1 << 16
#: Answered without a key, for load balancers that ask it.
_PUBLIC_PATH = "/health"
#: nginx's status for a client that closed the connection; only the log and the metrics see it.
_CLIENT_GONE = 499


class Hooks(NamedTuple):
    """Additions around a request; None is off, and costs a request nothing."""

    keys: "Keys | None" = None
    metrics: "Metrics | None" = None
    tracer: "Tracer | None" = None


class Lifecycle:
    """Where the server is between its start and its end.

    A load balancer learns from `/ready` that a server is about to stop, and sends requests until it
    has asked. So requests are still answered for `accept` seconds after SIGTERM; then new ones are
    refused, and those under way are finished. Both parts take at most `total` seconds.
    """

    def __init__(self, *, accept: float, total: float) -> None:
        self._accept, self.total = accept, total
        #: The part of it at its end that is for refusing what is not done.
        self.last = min(LAST_SECONDS, total / 2)
        self.draining = False
        self.refusing = False
        #: Requests that are being answered, without those for `/live` and the like.
        self.in_flight = 0
        self._idle = asyncio.Event()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request until its end, for which the end of the server waits."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()

    async def drain(self, stop: Callable[[], None], *, accept: bool = True) -> None:
        """Go through both parts, then call `stop`; `accept`: also through the first.

        `stop` has the last second, to refuse what is not done and to wait for the model's run.
        """
        seconds = self.total - self.last
        end = time.monotonic() + seconds
        self.draining = True
        if accept:
            await asyncio.sleep(min(self._accept, seconds))
        self.refusing = True
        if self.in_flight:
            self._idle.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), max(0.0, end - time.monotonic()))
        stop()


@dataclass(slots=True, eq=False)
class Upload:
    """A body that is being read."""

    exchange: Exchange
    #: The body's time, which ends sooner if others need its room.
    timeout: asyncio.Timeout
    #: `time.monotonic()` of the last progress, and the bytes that were there.
    moved: float = field(default_factory=time.monotonic)
    seen: int = 0

    def move(self, total: int) -> None:
        """Say that this many bytes are there."""
        if total - self.seen >= _PROGRESS_BYTES:
            self.moved, self.seen = time.monotonic(), total


class App:
    """Answers requests, with the session of the router's engine and the router's telemetry."""

    def __init__(
        self,
        router: Router,
        *,
        queue: BatchingSession,
        log: AccessLog,
        lifecycle: Lifecycle,
        settings: ServerSettings,
        hooks: Hooks,
    ) -> None:
        self._router, self._queue, self._log = router, queue, log
        self._lifecycle, self._settings, self._hooks = lifecycle, settings, hooks
        # One thread for each request: it tokenizes, waits for the model, and renders.
        self._threads = ThreadPoolExecutor(_THREADS, "request")
        self._requests, self._bodies = Shares("requests"), Shares("bytes of bodies")
        #: Bodies that are being read.
        self._uploads: set[Upload] = set()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        method, path, headers = scope["method"], scope["path"], _headers(scope["headers"])
        response = self._answer_about_itself(method, path, headers)
        if response is not None:
            await self._send(send, response, {})
            return
        request_id = usable_id(headers.get("x-request-id")) or new_request_id()
        exchange = Exchange(request_id, method, path)
        # The end of the server does not wait for one that is refused.
        with nullcontext() if self._lifecycle.refusing else self._lifecycle.request():
            await self._exchange(exchange, headers, receive, send)

    def stop(self) -> None:
        """Refuse the requests that wait for the model."""
        self._queue.stop()

    def close(self) -> None:
        """End the threads; nothing is asked of them any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answer_about_itself(
        self, method: str, path: str, headers: Mapping[str, str]
    ) -> Response | None:
        """Answer what is no request to the router: the state of the server, and its metrics."""
        metrics = self._hooks.metrics if path == "/metrics" else None
        if metrics is None and path not in STATUS_PATHS:
            return None
        if method not in {"GET", "HEAD"}:
            allow = {"allow": "GET, HEAD"}
            return json_response({"status": "wrong method"}, status=405, headers=allow)
        response = self._state(path) if metrics is None else self._metrics(metrics, headers)
        return response._replace(body=b"") if method == "HEAD" else response

    def _metrics(self, metrics: "Metrics", headers: Mapping[str, str]) -> Response:
        keys = self._hooks.keys
        try:
            if self._settings.metrics_key and keys is not None:
                keys.authenticate(headers)
        except errors.UnauthorizedError as error:
            record = RequestRecord(new_request_id())
            return self._router.error_response(error, record, path="/metrics")
        body, content_type = metrics.render()
        return Response(200, body, {"content-type": content_type})

    def _state(self, path: str) -> Response:
        """Say whether the process should go on, and at `/ready` whether to send requests here."""
        if path == "/ready" and self._lifecycle.draining:
            return json_response({"status": "draining"}, status=503)
        if not self._queue.alive:  # Only a new process helps.
            return json_response({"status": "a worker ended"}, status=503)
        # The port opens after the model has run once.
        return json_response({"status": "ready" if path == "/ready" else "live"})

    async def _exchange(
        self, exchange: Exchange, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        hooks = self._hooks
        span = None if hooks.tracer is None else hooks.tracer.start(exchange, headers)
        added = {} if span is None else span.headers
        try:
            response = await self._answer(exchange, headers, receive)
        except errors.AnswerableError as error:
            response = self._error(error, exchange)
        except asyncio.CancelledError:  # The last second of the server is over.
            response = self._error(errors.ShuttingDownError(), exchange)
        except Exception as error:  # The caller gets a response, and the log the place.
            response = self._error(errors.ServerError(), exchange)
            exchange.record.fault = fault(error)
        finally:
            self._requests.take(exchange.caller, -exchange.admitted)
            self._bodies.take(exchange.caller, -exchange.body_bytes)
        if exchange.record.error == ClientGoneError.code:
            exchange.record.status, exchange.cancelled = _CLIENT_GONE, True
        else:
            await self._send(send, response, added)
        if hooks.metrics is not None:
            hooks.metrics.observe(exchange)
        if span is not None:
            span.end(exchange)
        self._log.finish(exchange)

    async def _answer(
        self, exchange: Exchange, headers: Mapping[str, str], receive: Receive
    ) -> Response:
        """Return the router's response; what is raised becomes one, too."""
        if self._lifecycle.refusing:
            raise errors.ShuttingDownError
        if self._hooks.keys is not None and exchange.path != _PUBLIC_PATH:
            exchange.caller = self._hooks.keys.authenticate(headers)
        _check_length(headers)
        exchange.ticket.caller = exchange.caller
        self._check_requests(exchange.caller)
        body = await self._read_body(exchange, receive)
        # It counts when it is there: one that is still uploaded takes nothing from others.
        self._check_requests(exchange.caller)
        self._requests.take(exchange.caller, 1)
        exchange.admitted = True
        decoded = _decoded(body, headers)
        if decoded is not body:
            self._arrived(exchange, len(decoded))
        request = Request(
            method=exchange.method,
            path=exchange.path,
            headers=headers,
            body=decoded,
            id=exchange.id,
            deadline=time.monotonic() + self._settings.timeout,
        )
        response, record = await self._in_thread(request, exchange.ticket, receive)
        exchange.finish(record)
        return response

    def _check_requests(self, caller: str) -> None:
        self._requests.check(
            caller,
            1,
            self._settings.max_concurrent_requests,
            seconds_each=self._queue.seconds / max(1, self._requests.total),
        )

    def _arrived(self, exchange: Exchange, size: int) -> None:
        """Refuse a request of which more has arrived than there is room for."""
        while True:
            try:
                self._bodies.check(exchange.caller, size, _BODY_BYTES)
                break
            except errors.OverloadedError:
                if not self._end_stalled_upload(exchange.caller):
                    raise
        self._queue.check(exchange.caller, (exchange.body_bytes + size) // _BYTES_PER_TOKEN)
        self._bodies.take(exchange.caller, size)
        exchange.body_bytes += size

    def _end_stalled_upload(self, caller: str) -> bool:
        """End the upload of this caller that has stalled for the longest; say whether one had.

        Without keys all clients are one caller, and one of them must not keep out the others.
        """
        now = time.monotonic()
        stalled = [
            upload
            for upload in self._uploads
            if upload.exchange.caller == caller and now - upload.moved >= _STALLED_SECONDS
        ]
        if not stalled:
            return False
        upload = min(stalled, key=lambda upload: upload.moved)
        self._uploads.remove(upload)
        self._bodies.take(caller, -upload.exchange.body_bytes)
        upload.exchange.body_bytes = 0
        upload.timeout.reschedule(0.0)
        return True

    async def _read_body(self, exchange: Exchange, receive: Receive) -> bytes:
        """Return a body, up to a limit of bytes and of time."""
        pieces: list[bytes] = []
        total, more = 0, True
        upload = None
        try:
            async with asyncio.timeout(self._settings.body_timeout) as timeout:
                upload = Upload(exchange, timeout)
                self._uploads.add(upload)
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError("The client has closed the connection.")
                    piece, more = message.get("body", b""), message.get("more_body", False)
                    if piece and total <= MAX_REQUEST_BYTES:
                        self._arrived(exchange, len(piece))
                        pieces.append(piece)
                    total += len(piece)
                    upload.move(total)
                    if total > _DROPPED_BYTES:
                        raise _too_large(f"more than {_DROPPED_BYTES}", connection="close")
        except TimeoutError:
            ended = (
                f"The body was not there after {self._settings.body_timeout:g} s."
                if upload in self._uploads
                else "The body did not go on, and others needed its room."
            )
            raise errors.SlowBodyError(ended, headers={"connection": "close"}) from None
        finally:
            self._uploads.discard(upload)
        if total > MAX_REQUEST_BYTES:
            raise _too_large(str(total))
        return b"".join(pieces)

    async def _in_thread(
        self, request: Request, ticket: Ticket, receive: Receive
    ) -> tuple[Response, RequestRecord]:
        """Answer a request in a thread, and drop its runs if its client goes."""
        loop = asyncio.get_running_loop()
        answer = loop.run_in_executor(self._threads, self._handle, request, ticket)
        gone = loop.create_task(_disconnected(receive))

        def cancel(_: "asyncio.Task[None]") -> None:
            self._queue.cancel(ticket)

        gone.add_done_callback(cancel)
        try:
            return await asyncio.shield(answer)
        finally:
            gone.remove_done_callback(cancel)
            gone.cancel()

    def _handle(self, request: Request, ticket: Ticket) -> tuple[Response, RequestRecord]:
        tokens = len(request.body) // _BYTES_PER_TOKEN
        with self._queue.request(ticket, tokens=tokens, deadline=request.deadline):
            record = RequestRecord(request.id)
            return self._router.handle(request, record), record

    def _error(self, error: errors.AnswerableError, exchange: Exchange) -> Response:
        record = RequestRecord(exchange.id)
        response = self._router.error_response(error, record, path=exchange.path)
        exchange.finish(record)
        return response

    async def _send(self, send: Send, response: Response, added: Mapping[str, str]) -> None:
        headers = {**response.headers, **added, "content-length": str(len(response.body))}
        if self._lifecycle.draining:
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


def _check_length(headers: Mapping[str, str]) -> None:
    """Check the `Content-Length`, which a body in chunks does not have."""
    declared = headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdecimal()):
        raise errors.MalformedBodyError('The header "content-length" must be a number of bytes.')
    if int(declared[:18]) > _DROPPED_BYTES:
        raise _too_large(declared[:18], connection="close")


def _too_large(size: str, **headers: str) -> errors.BodyTooLargeError:
    return errors.BodyTooLargeError(
        f"The body has {size} bytes; at most {MAX_REQUEST_BYTES} are allowed.", headers=headers
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
