"""The target that the arguments of a client name, and what authenticates requests to it."""

import httpx

from embedding_client.addresses import check_url
from embedding_client.api_key import ApiKeyAuth
from embedding_client.errors import ConfigurationError
from embedding_client.signing import SigV4Auth, SigV4AuthIfRefused
from embedding_client.targets import Target, UrlTarget

__all__ = ["choose_auth", "find_target"]


def find_target(
    url: str | None,
    *,
    function: str | None,
    endpoint_url: str | None,
    region: str | None,
    allow_plain_http: bool,
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

        return function_target(
            function,
            endpoint_url=endpoint_url,
            region=region,
            allow_plain_http=allow_plain_http,
        )
    if endpoint_url is not None or region is not None:
        raise ConfigurationError("endpoint_url and region belong to function=; found a URL.")
    return UrlTarget(check_url(url or "", allow_plain_http=allow_plain_http))


def choose_auth(
    target: Target,
    *,
    allow_plain_http: bool,
    auth: httpx.Auth | None = None,
    api_key: str | None = None,
    profile: str | None = None,
    region: str | None = None,
) -> httpx.Auth:
    """Return what authenticates requests: by default a signer, also for the target's own host.

    Without a profile and a region, a host that is not AWS's gets a signature only if it refuses
    requests that have none.

    Raises:
        ConfigurationError: If both `auth` and `api_key` are given, or `api_key` with a function.
        CredentialsError: If the key cannot be the value of a header.
    """
    if api_key is None:
        if auth is not None:
            return auth
        region = region or target.region
        signer = SigV4Auth if profile or region else SigV4AuthIfRefused
        return signer(
            profile=profile,
            hosts=[target.host],
            region=region,
            allow_plain_http=allow_plain_http,
        )
    if auth is not None:
        raise ConfigurationError("Give only one of auth and api_key.")
    if not isinstance(target, UrlTarget):
        raise ConfigurationError("Lambda's Invoke takes no API key: give url, or no api_key.")
    return ApiKeyAuth(api_key, allow_plain_http=allow_plain_http)
