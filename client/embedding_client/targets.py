"""Where a client sends its requests: an endpoint's URL, or Lambda's Invoke.

A target turns a call of the endpoint's API into the HTTP request to send, and the HTTP response
into that of the endpoint. It does no I/O.
"""

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import httpx

__all__ = ["Request", "Target", "UrlTarget"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to send.

    Attributes:
        method: The HTTP method.
        url: The URL.
        content: The body, or None.
        headers: The headers besides those of the HTTP client.
        delay: Seconds to wait before sending it.
    """

    method: str
    url: str
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


class Target(Protocol):
    """Where requests go.

    Attributes:
        name: The URL or the function, for messages.
        host: The host to sign for.
        region: The region to sign for; None for the one in the host.
    """

    @property
    def name(self) -> str: ...  # noqa: D102  (described above)
    @property
    def host(self) -> str: ...  # noqa: D102
    @property
    def region(self) -> str | None: ...  # noqa: D102

    def request(self, method: str, path: str, body: bytes | None, *, delay: float) -> Request:
        """Return the request for a call of the endpoint's API, with a JSON body or none."""

    def response(self, response: httpx.Response) -> httpx.Response:
        """Return the endpoint's response."""


@dataclass(frozen=True)
class UrlTarget:
    """A Function URL, an API in front of it, or a server."""

    url: str
    region: None = None

    @property
    def name(self) -> str:
        """The URL."""
        return self.url

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urlsplit(self.url).hostname or ""

    def request(self, method: str, path: str, body: bytes | None, *, delay: float) -> Request:
        """Return the request."""
        headers = {"content-type": "application/json"} if body is not None else {}
        return Request(
            method=method, url=self.url + path, content=body, headers=headers, delay=delay
        )

    def response(self, response: httpx.Response) -> httpx.Response:
        """Return the response, which is the endpoint's own."""
        return response
