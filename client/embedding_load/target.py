"""Where requests go, and the headers of each: a signature, an API key, or neither."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from embedding_client.addresses import check_url
from embedding_client.api_key import ApiKeyAuth, read_key
from embedding_client.signing import SigV4Auth, region_of
from embedding_kit.prices import DEFAULT_REGION

__all__ = ["Target", "target"]

_JSON = {"content-type": "application/json"}
_API_GATEWAY = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.com$")


@dataclass(frozen=True, kw_only=True)
class Target:
    """An endpoint.

    Attributes:
        url: Its URL, with a slash at the end.
        auth: Signs requests, or adds a key.
        region: Its region; None for a server, which is paid by the hour.
        gateway: Whether API Gateway is in front of it, and paid by request too.
        allow_plain_http: Whether it may be one of plain HTTP on another machine.
    """

    url: str
    auth: httpx.Auth
    region: str | None
    gateway: bool = False
    allow_plain_http: bool = False

    def headers(self, body: bytes) -> dict[str, str]:
        """Return the headers of a request."""
        url = self._parsed
        request = _Request(url, body, {**_JSON, "host": url.netloc.decode("ascii")})
        next(self.auth.sync_auth_flow(request))  # type: ignore[arg-type]  # what the flows use
        return request.headers

    @cached_property
    def proxy(self) -> str | None:
        """The proxy that the environment sets for the URL.

        Found once: aiohttp would look for it in a thread, for each request.
        """
        parts = urlsplit(self.url)
        if proxy_bypass(parts.netloc):
            return None
        return getproxies().get(parts.scheme)

    @cached_property
    def _parsed(self) -> httpx.URL:
        return httpx.URL(self.url)


@dataclass(slots=True)
class _Request:
    """What the client's auth reads of a request, without the time of an httpx.Request."""

    url: httpx.URL
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"

    def read(self) -> bytes:
        return self.content


def target(
    url: str,
    *,
    sign: bool,
    key_variable: str | None,
    profile: str | None,
    region: str | None,
    allow_plain_http: bool = False,
) -> Target:
    """Return the target of a test.

    Args:
        url: The endpoint's URL.
        sign: False for a server.
        key_variable: The environment variable with an API key: of a server, or of API Gateway.
        profile: The AWS profile to sign with.
        region: The region, if the URL does not contain it.
        allow_plain_http: Whether the URL may be one of plain HTTP on another machine.

    Raises:
        ConfigurationError: The URL is no URL, the variable is empty, or the region is unknown.
    """
    address = check_url(url, allow_plain_http=allow_plain_http) + "/"
    host = urlsplit(address).hostname or ""
    gateway = sign and key_variable is not None
    auth: httpx.Auth
    if key_variable is not None:
        auth = ApiKeyAuth(read_key(key_variable), allow_plain_http=allow_plain_http)
        found = _API_GATEWAY.search(host)
        region = region or (found[1] if found else DEFAULT_REGION)
    elif sign:
        # Found once: botocore would read its configuration again for each request.
        region = region or region_of(host)
        auth = SigV4Auth(
            profile=profile, region=region, hosts=[host], allow_plain_http=allow_plain_http
        )
    else:
        auth = httpx.Auth()
    return Target(
        url=address,
        auth=auth,
        region=region if sign else None,
        gateway=gateway,
        allow_plain_http=allow_plain_http,
    )
