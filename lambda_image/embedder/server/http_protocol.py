"""uvicorn's protocol for a connection, with times for what a client may leave half done.

uvicorn limits the time of a connection between two requests only. Here the headers of a request
have to arrive in time as well, the first ones included; and a client that does not read its
response, or whose machine has vanished, is not waited for longer than an idle one.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["protocol_with"]


def protocol_with(*, header_timeout: float) -> type[HttpToolsProtocol]:
    """Return the class of a connection's protocol."""

    class Protocol(HttpToolsProtocol):
        """A connection."""

        _waiting_for_headers: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_headers()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._waiting_for_headers is None:
                self._wait_for_headers()

        def on_headers_complete(self) -> None:
            self._have_headers()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._have_headers()
            super().connection_lost(exc)

        def timeout_keep_alive_handler(self) -> None:
            if self.transport.get_write_buffer_size():
                # `close` would wait for the client to read it.
                self.transport.abort()
            else:
                super().timeout_keep_alive_handler()

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
