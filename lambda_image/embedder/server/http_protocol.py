"""uvicorn as the server and the local Function URL run it: the one HTTP front of both.

Its protocol for a connection has bounds for what a client may send or leave half done.

uvicorn limits the time of a connection between two requests only. Here the headers of a request
have to arrive in time as well, the first ones included; and a client that does not read its
response, or has vanished with its machine, is not waited for longer than an idle one.

httptools keeps what it has of a request line and of headers, however much comes, and this is before
a key can be checked. So their size is bounded, and so are requests that are sent ahead of their
answers. `Upgrade` is ignored, as RFC 9110 (section 7.8) allows: httptools would take the body of
a request with this header for data of the other protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import Server

from embedder.http.status_phrases import PHRASES

#: The longest path with its query.
_TARGET_BYTES = 8 << 10
#: The most headers, trailers included: bytes of names and values, with the four between them.
_HEADER_BYTES = 16 << 10
_HEADERS = 100
#: What a client sends after a refusal is read up to this size, so that it can read the answer.
_DROPPED_BYTES = 1 << 20
#: Requests that wait on a connection for the answers to those before them.
_PIPELINED = 16
#: Connections that the system keeps until they are accepted.
_BACKLOG = 2048

# uvicorn has the interpreter's phrases, also in the answers that it writes itself.
STATUS_LINE.update({n: b"HTTP/1.1 %d %s\r\n" % (n, text.encode()) for n, text in PHRASES.items()})

_NOT_HTTP = HTTPStatus.BAD_REQUEST, "The request is not valid HTTP/1.1."
_LONG_TARGET = (
    HTTPStatus.REQUEST_URI_TOO_LONG,
    f"The path and the query may have {_TARGET_BYTES} bytes; found more.",
)
_LARGE_HEADERS = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"{_HEADERS} headers with {_HEADER_BYTES} bytes are allowed; found more.",
)
_PIPELINE = (
    HTTPStatus.TOO_MANY_REQUESTS,
    f"{_PIPELINED} requests may wait on a connection; found more.",
)


class _RefusedError(Exception):
    """A request that is not read to its end; its arguments are the status and the answer."""


def http_config(
    app: Callable[..., Awaitable[None]], *, header_timeout: float = 10.0, keep_alive: int = 75
) -> Config:
    """Return uvicorn's settings for an ASGI application; both times are seconds."""
    return Config(
        app,
        interface="asgi3",
        http=protocol_with(header_timeout=header_timeout),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=keep_alive,
        # A drain has waited for all requests; this is for connections that do not close.
        timeout_graceful_shutdown=1,
        backlog=_BACKLOG,
    )


def plain_server(app: Callable[..., Awaitable[None]]) -> Server:
    """Return a server for an ASGI application, with uvicorn's own end."""
    return Server(http_config(app))


def protocol_with(*, header_timeout: float) -> type[HttpToolsProtocol]:
    """Return the class of a connection's protocol."""

    class Protocol(HttpToolsProtocol):
        """A connection."""

        _waiting_for_headers: asyncio.TimerHandle | None = None
        #: Bytes that were dropped since the client was refused; None before that.
        _dropped: int | None = None
        #: Bytes of this request's headers and trailers.
        _header_bytes = 0
        #: Bytes since the parser has returned something: a part of a header, or around a chunk.
        _unfinished = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            """Parse data in pieces, because the parser keeps what it has of a header."""
            self._unset_keepalive_if_required()
            rest = memoryview(data)
            while rest and self._dropped is None:
                piece, rest = rest[:_HEADER_BYTES], rest[_HEADER_BYTES:]
                self._unfinished += len(piece)
                try:
                    self.parser.feed_data(piece)
                except httptools.HttpParserUpgrade as upgrade:
                    if self._should_upgrade():
                        head = self._head_without_upgrade()
                        rest = memoryview(b"".join([head, piece[upgrade.args[0] :], rest]))
                except httptools.HttpParserError as error:
                    cause = error.__context__
                    self._refuse(*cause.args if isinstance(cause, _RefusedError) else _NOT_HTTP)
                else:
                    if self._unfinished > _HEADER_BYTES:
                        self._refuse(*_LARGE_HEADERS)
            if self._dropped is not None:
                self._dropped += len(rest)
                if self._dropped > _DROPPED_BYTES:
                    self.transport.abort()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._header_bytes = self._unfinished = 0
            if self._waiting_for_headers is None:
                self._wait_for_headers()

        def on_url(self, url: bytes) -> None:
            super().on_url(url)
            self._unfinished = 0
            if len(self.url) > _TARGET_BYTES:
                raise _RefusedError(*_LONG_TARGET)

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value)
            self._unfinished = 0
            self._header_bytes += len(name) + len(value) + 4
            if self._header_bytes > _HEADER_BYTES or len(self.headers) > _HEADERS:
                raise _RefusedError(*_LARGE_HEADERS)

        def on_headers_complete(self) -> None:
            if len(self.pipeline) == _PIPELINED:
                raise _RefusedError(*_PIPELINE)
            if not (self.parser.should_upgrade() and self._should_upgrade()):
                self._have_headers()
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unfinished = 0
            super().on_body(body)

        def connection_lost(self, exc: Exception | None) -> None:
            self._have_headers()
            super().connection_lost(exc)

        def timeout_keep_alive_handler(self) -> None:
            if self.transport.get_write_buffer_size():
                # `close` would wait for the client to read it.
                self.transport.abort()
            else:
                super().timeout_keep_alive_handler()

        def _should_upgrade(self) -> bool:
            """Have uvicorn leave out a request that is parsed again; CONNECT cannot be."""
            return bool(self.parser.get_method() != b"CONNECT")

        def _head_without_upgrade(self) -> bytes:
            """Return the head that was parsed without `Upgrade`, for a new parser."""
            version = self.parser.get_http_version().encode()
            lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
            lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            return b"\r\n".join([*lines, b"", b""])

        def _refuse(self, status: HTTPStatus, message: str) -> None:
            """Answer a request that cannot be read, and end the connection."""
            self._dropped = 0
            cycle = self.cycle
            answering = cycle is not None and not cycle.response_complete
            if answering and (self.pipeline or not cycle.more_body):
                # What was read before it gets its answers.
                cycle.keep_alive = False
                return
            body = message.encode()
            head = (
                b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n"
            )
            self.transport.write(STATUS_LINE[status] + head % len(body) + body)
            if answering:
                self.transport.close()
                return
            # Closing would reset the connection while the client still writes.
            self.transport.write_eof()
            if self._waiting_for_headers is None:
                self._wait_for_headers()

        def _wait_for_headers(self) -> None:
            self._waiting_for_headers = self.loop.call_later(header_timeout, self._give_up)

        def _have_headers(self) -> None:
            if self._waiting_for_headers is not None:
                self._waiting_for_headers.cancel()
                self._waiting_for_headers = None

        def _give_up(self) -> None:
            self._waiting_for_headers = None
            self.transport.abort()

    return Protocol
