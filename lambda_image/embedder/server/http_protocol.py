"""uvicorn as the server and the local Function URL run it: the one HTTP front of both.

What uvicorn has a setting for is a setting; the rest is in its protocol for a connection.

- A request has to arrive in time, the first one of a connection included, and so has the rest of a
  body that was refused. A client that does not read its response, or has vanished with its machine,
  is not waited for longer than an idle one.
- httptools keeps what it has of a request line and of headers, however much comes, and this is
  before a key can be checked. So their size is bounded, and so is the number of requests that are
  sent ahead of their answers. (h11 has these bounds, and takes 0.15 ms more of a request.)
- `Upgrade` is ignored, as RFC 9110 (section 7.8) allows: Java's client and `curl --http2` send it
  with h2c, and httptools would take the body of such a request for data of the other protocol.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import Server

from embedder.http.status_phrases import PHRASES

#: The longest time of a request on its way, from its first byte; of a connection's first, from the
#: connection's beginning.
_ARRIVAL_SECONDS = 30.0
#: The most bytes of a request line with its headers, of trailers, or around a chunk.
_HEAD_BYTES = 16 << 10
#: Requests that wait on a connection for the answers to those before them.
_PIPELINED = 16
_REFUSAL = (
    f"The request is not valid HTTP/1.1, or has more than {_HEAD_BYTES} bytes of headers, or "
    f"{_PIPELINED} requests wait before it."
)

# uvicorn has the interpreter's phrases, also in the answers that it writes itself.
STATUS_LINE.update({n: b"HTTP/1.1 %d %s\r\n" % (n, text.encode()) for n, text in PHRASES.items()})


def http_config(
    app: Callable[..., Awaitable[None]], *, keep_alive: int = 75, graceful: int | None = None
) -> Config:
    """Return uvicorn's settings for an ASGI application.

    It keeps idle connections for `keep_alive` seconds, and at its end cancels requests that are not
    done after `graceful` seconds.
    """
    return Config(
        app,
        interface="asgi3",
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=graceful,
    )


def plain_server(app: Callable[..., Awaitable[None]]) -> Server:
    """Return a server for an ASGI application, with uvicorn's own end."""
    return Server(http_config(app))


def joined_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return ASGI's headers by their names; values of one name are joined, as Lambda does."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1").strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


class _Connection(HttpToolsProtocol):
    """A connection with bounds for what a client may send or leave half done."""

    _arrival_timer: asyncio.TimerHandle | None = None
    #: Bytes since the last headers, piece of a body or end of a request.
    _unfinished = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # With Nagle's algorithm, the body of a response would wait 40 ms for the client to
        # acknowledge the head. asyncio turns it off only for sockets that name TCP.
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._limit_arrival()

    def data_received(self, data: bytes) -> None:
        while data and not self.transport.is_closing():
            piece, data = data[:_HEAD_BYTES], data[_HEAD_BYTES:]
            self._unfinished += len(piece)
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + piece[upgrade.args[0] :] + data
            except httptools.HttpParserError:
                self.send_400_response(_REFUSAL)
            else:
                if self._unfinished > _HEAD_BYTES:
                    self.send_400_response(_REFUSAL)

    def on_message_begin(self) -> None:
        self._unset_keepalive_if_required()
        self._limit_arrival()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._unfinished = 0
        if len(self.pipeline) >= _PIPELINED:
            raise ValueError("too many requests")  # It ends the parsing, with a refusal.
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished = 0
        self._have_arrived()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_arrived()
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

    def _limit_arrival(self) -> None:
        self._have_arrived()
        self._arrival_timer = self.loop.call_later(_ARRIVAL_SECONDS, self._is_late)

    def _is_late(self) -> None:
        if self.pipeline:  # It is not read while the requests before it are answered.
            self._limit_arrival()
        else:
            self.transport.abort()

    def _have_arrived(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None
