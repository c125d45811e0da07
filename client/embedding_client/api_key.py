"""API keys as an `httpx.Auth`, for what is in front of an endpoint and for the server.

EmbeddingClient(url, api_key=key)
EmbeddingClient(url, auth=ApiKeyAuth(key, header="authorization"))
"""

import hashlib
from collections.abc import Generator
from typing import Any

import httpx

from embedding_client.errors import ConfigurationError, CredentialsError
from embedding_client.signing import LOOPBACK, Httpx2Auth

__all__ = ["ApiKeyAuth"]


class ApiKeyAuth(httpx.Auth, Httpx2Auth):  # type: ignore[misc]  # two types of requests
    """Sends an API key with each request.

    A key is sent by HTTPS only, or to this machine. With `x-api-key`, a body is sent with its
    SHA-256: CloudFront signs requests to the function, and cannot read bodies.

    Args:
        key: The secret.
        header: The header: `x-api-key` for API Gateway and CloudFront, `authorization` for the
            server, which gets `Bearer KEY`.

    Raises:
        CredentialsError: If the key cannot be the value of a header. Requests raise
            `ConfigurationError` if their URL is neither HTTPS nor on this machine.
    """

    #: httpx reads a body before the flow starts, also one that is streamed.
    requires_request_body = True

    def __init__(self, key: str, *, header: str = "x-api-key") -> None:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            # Without the key itself, which may be a real one with a line break.
            found = f"{len(key)} characters, with a space or others" if key else "none"
            raise CredentialsError(
                f"The API key must be printable ASCII characters without spaces; found {found}."
            )
        self._header = header.lower()
        self._value = f"Bearer {key}" if self._header == "authorization" else key

    def auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Add the key, and the hash of a body."""
        if request.url.scheme != "https" and request.url.host not in LOOPBACK:
            raise ConfigurationError(
                f"The API key would travel in the clear: {request.url.host} is called by "
                f"{request.url.scheme}. Allowed: https, or this machine."
            )
        request.headers[self._header] = self._value
        if self._header == "x-api-key" and request.content:
            request.headers["x-amz-content-sha256"] = hashlib.sha256(request.content).hexdigest()
        yield request
