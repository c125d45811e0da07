"""The target that the arguments of a client name, and the default signer for it."""

from embedding_client.errors import ConfigurationError
from embedding_client.protocol import check_url
from embedding_client.signing import SigV4Auth
from embedding_client.targets import Target, UrlTarget

__all__ = ["default_auth", "find_target"]


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


def default_auth(target: Target) -> SigV4Auth:
    """Return the default signer, which also signs for the target's own host."""
    return SigV4Auth(hosts=[target.host], region=target.region)
