"""API keys as an `httpx.Auth`, for what is in front of an endpoint and for the server.

EmbeddingClient(url, api_key=key)
OpenAI(base_url=url + "/v1", api_key="-", http_client=httpx.Client(auth=ApiKeyAuth(key)))
"""

import os
import re
from collections.abc import Generator
from typing import Any

import httpx

from embedding_client.addresses import check_encrypted
from embedding_client.errors import ConfigurationError, CredentialsError
from embedding_client.signing import Httpx2Auth

__all__ = ["ApiKeyAuth", "read_key"]

#: The scheme of one of the challenges of a 401 (RFC 9110, 11.6.1).
_BEARER = re.compile(r"(?:^|,)\s*bearer(?:\s|,|$)", re.IGNORECASE)


class ApiKeyAuth(httpx.Auth, Httpx2Auth):  # type: ignore[misc]  # two types of requests
    """Sends an API key with each request.

    It is sent as `x-api-key`, as API Gateway takes it, until an answer asks for a bearer token
    (`WWW-Authenticate: Bearer`), as the server's does; from then on as `Authorization: Bearer KEY`.

    Args:
        key: The secret.
        allow_plain_http: Whether to send it to hosts without TLS, where it travels in the clear;
            this machine is always allowed.

    Raises:
        CredentialsError: If the key cannot be the value of a header. Requests raise
            `ConfigurationError` if their URL is neither HTTPS nor on this machine.
    """

    #: httpx reads a body before the flow starts, so that it can be sent again.
    requires_request_body = True

    def __init__(self, key: str, *, allow_plain_http: bool = False) -> None:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            # Without the key itself, which may be a real one with a line break.
            found = f"{len(key)} characters, with a space or others" if key else "none"
            raise CredentialsError(
                f"The API key must be printable ASCII characters without spaces; found {found}."
            )
        self._key = key
        self._allow_plain_http = allow_plain_http
        self._is_bearer = False

    def auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Add the key, and send the request again if it belongs into another header."""
        if not self._allow_plain_http:
            check_encrypted(request.url.scheme, request.url.host)
        if not self._is_bearer:
            request.headers["x-api-key"] = self._key
            response = yield request
            challenges = response.headers.get("www-authenticate", "")
            if response.status_code != 401 or not _BEARER.search(challenges):
                return
            self._is_bearer = True
            del request.headers["x-api-key"]
        request.headers["authorization"] = f"Bearer {self._key}"
        yield request


def read_key(variable: str) -> str:
    """Return the API key in an environment variable.

    Raises:
        ConfigurationError: If it is not set.
    """
    key = os.environ.get(variable)
    if not key:
        raise ConfigurationError(f"No API key: --api-key-env names {variable}, which is not set.")
    return key
