"""Where requests go, and the headers of each: a signature, a server's key, or neither."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from embedding_client.errors import ConfigurationError
from embedding_client.protocol import check_url
from embedding_client.signing import SigV4Auth, region_of

__all__ = ["Headers", "Target", "target"]

#: Returns the headers of a request by its body.
Headers = Callable[[bytes], dict[str, str]]
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """An endpoint.

    Attributes:
        url: Its URL, with a slash at the end.
        headers: Returns the headers of a request by its body.
        auth: The same for httpx.
        region: The region of a Function URL; None for an endpoint that is not signed for.
    """

    url: str
    headers: Headers
    auth: httpx.Auth
    region: str | None

    @cached_property
    def proxy(self) -> str | None:
        """The proxy that the environment sets for the URL.

        Found once: aiohttp would look for it in a thread, for each request.
        """
        parts = urlsplit(self.url)
        if proxy_bypass(parts.netloc):
            return None
        return getproxies().get(parts.scheme)


def target(
    url: str,
    *,
    sign: bool,
    key_variable: str | None,
    profile: str | None,
    region: str | None,
) -> Target:
    """Return the target of a test.

    Args:
        url: The endpoint's URL.
        sign: Whether to sign requests.
        key_variable: The environment variable with a server's API key, which is sent instead.
        profile: The AWS profile to sign with.
        region: The region to sign for, if the URL does not contain it.

    Raises:
        ConfigurationError: The URL is no URL, the variable is empty, or the region is unknown.
    """
    address = check_url(url) + "/"
    if key_variable is not None:
        key = os.environ.get(key_variable, "")
        if not key:
            raise ConfigurationError(
                f"--api-key names an environment variable with the key; {key_variable} is not set."
            )
        keyed = {**_JSON, "authorization": f"Bearer {key}"}
        return Target(url=address, headers=lambda _: dict(keyed), auth=_Bearer(key), region=None)
    if not sign:
        return Target(url=address, headers=lambda _: dict(_JSON), auth=httpx.Auth(), region=None)
    host = urlsplit(address).hostname or ""
    # Found once: botocore would read its configuration again for each request.
    region = region or region_of(host)
    auth = SigV4Auth(profile=profile, region=region, hosts=[host])
    return Target(url=address, headers=_signed(auth, address), auth=auth, region=region)


class _Bearer(httpx.Auth):
    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request):  # type: ignore[no-untyped-def]
        request.headers["authorization"] = f"Bearer {self._key}"
        yield request


@dataclass(slots=True)
class _Request:
    """What the signer reads of a request and adds to it, without the time of an httpx.Request."""

    url: httpx.URL
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"

    def read(self) -> bytes:
        return self.content


def _signed(auth: SigV4Auth, address: str) -> Headers:
    url = httpx.URL(address)
    host = url.netloc.decode("ascii")

    def headers(body: bytes) -> dict[str, str]:
        request = _Request(url, body, {**_JSON, "host": host})
        next(auth.sync_auth_flow(request))
        return request.headers

    return headers
