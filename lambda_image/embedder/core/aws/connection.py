"""HTTP connections to one host that stay open between requests."""

from __future__ import annotations

import http.client
import select
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:  # imported where it is needed
    import ssl

#: A connection that was idle for longer is not used again. A function's environment may be frozen
#: for minutes, and then a network device may have dropped the connection without a word.
_IDLE_SECONDS = 20.0
#: Idle connections that are kept. A server has as many concurrent requests as callers.
_MOST_IDLE = 64


class Response(NamedTuple):
    """A response; names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ConnectionPool:
    """Sends requests to one host, of an http or https `url`.

    Threads may share it, as each request has a separate connection.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"The URL must be http:// or https:// with a host; found {url!r}.")
        #: The value of the header `host`, which a signature covers.
        self.host = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        self._name = parts.hostname
        self._port = parts.port
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            # Imported here: a server on this machine needs no TLS.
            import ssl  # noqa: PLC0415

            self._tls = ssl.create_default_context()
        #: Each with the time since when it is idle, the last one at the end. Threads share the
        #: list: to append and to pop are each atomic.
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []

    def request(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float,
    ) -> Response:
        """Send a request and read its response; `timeout` is for each wait, in seconds.

        A connection that the server closed while it was idle is replaced by a new one. The request
        may then be sent twice, so it must be one that is safe to repeat.

        Raises:
            OSError: if there is no response; `TimeoutError` if it took too long.
            http.client.HTTPException: if it is not HTTP.
        """
        request = (method, self._prefix + target, body or None, dict(headers or {}))
        connection = self._reusable()
        if connection is not None:
            try:
                return self._exchange(connection, timeout, *request)
            except (ConnectionError, http.client.HTTPException):
                # Closed by the server in this moment: RemoteDisconnected, or a broken pipe.
                pass
        return self._exchange(self._new(), timeout, *request)

    def close(self) -> None:
        """Close the idle connections; later requests open new ones."""
        while (last := self._last_idle()) is not None:
            last[0].close()

    def _exchange(
        self, connection: http.client.HTTPConnection, timeout: float, *request: Any
    ) -> Response:
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request(*request)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            # Also when the request is interrupted: its response must not be the next one's.
            connection.close()
            raise
        if len(self._idle) >= _MOST_IDLE:
            connection.close()
        elif connection.sock is not None:
            self._idle.append((connection, time.time()))
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Response(response.status, fields, content)

    def _reusable(self) -> http.client.HTTPConnection | None:
        while (last := self._last_idle()) is not None:
            connection, since = last
            fresh = 0 <= time.time() - since < _IDLE_SECONDS
            if fresh and not _readable(connection):
                return connection
            connection.close()
        return None

    def _last_idle(self) -> tuple[http.client.HTTPConnection, float] | None:
        try:
            return self._idle.pop()
        except IndexError:  # Another thread has taken the last one.
            return None

    def _new(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._name, self._port)
        return http.client.HTTPSConnection(self._name, self._port, context=self._tls)


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Return whether an idle connection has something to read: the server has closed it."""
    # Not `select`, which takes no descriptor above 1,023, and a server has many.
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
