"""The target that the arguments of a client name, and what authenticates requests to it."""

import httpx

from embedding_client.api_key import ApiKeyAuth
from embedding_client.errors import ConfigurationError
from embedding_client.protocol import check_url
from embedding_client.signing import SigV4Auth
from embedding_client.targets import Target, UrlTarget

__all__ = ["choose_auth", "find_target"]


def find_target(
    url: str | None, *, function: str | None, endpoint_url: str | None, region: str | None
) -> Target:
    """Return the target of a client's arguments.

    Raises:
        ConfigurationError: If they do not name one endpoint, or one is invalid.
    """
    if (url is None) is (function is None):
        raise ConfigurationError(
            "Give the endpoint's URL or function=, not both; found "
            + ("neither." if url is None else "both.")
        )
    if function is not None:
        from embedding_client.invoke import function_target  # noqa: PLC0415  (slow)

        return function_target(function, endpoint_url=endpoint_url, region=region)
    if endpoint_url is not None or region is not None:
        raise ConfigurationError("endpoint_url and region belong to function=; found a URL.")
    return UrlTarget(check_url(url or ""))


def choose_auth(target: Target, *, auth: httpx.Auth | None, api_key: str | None) -> httpx.Auth:
    """Return what authenticates requests: by default a signer, also for the target's own host.

    Raises:
        ConfigurationError: If both `auth` and `api_key` are given, or `api_key` with a function.
        CredentialsError: If the key cannot be the value of a header.
    """
    if api_key is None:
        return auth or SigV4Auth(hosts=[target.host], region=target.region)
    if auth is not None:
        raise ConfigurationError("Give only one of auth and api_key.")
    if not isinstance(target, UrlTarget):
        raise ConfigurationError("Lambda's Invoke takes no API key: give url, or no api_key.")
    return ApiKeyAuth(api_key)
