"""The client that the arguments of `embed` describe."""

import argparse
from typing import TYPE_CHECKING

from embedding_client.errors import ConfigurationError
from embedding_client.shared_arguments import URL_VARIABLE

if TYPE_CHECKING:
    import httpx

    from embedding_client.client import EmbeddingClient

__all__ = ["auth_for", "connect_to", "note_space"]


def connect_to(args: argparse.Namespace, *, vector_space: str | None = None) -> "EmbeddingClient":
    """Return a client for the endpoint in the arguments.

    Args:
        args: The arguments.
        vector_space: The vector space to accept; None for any.

    Raises:
        ConfigurationError: If the arguments do not name one endpoint, or are invalid.
    """
    if not args.url and not args.function:
        raise ConfigurationError(f"No endpoint: give --url or --function, or set {URL_VARIABLE}.")
    if args.function:
        return _to_function(args, vector_space)
    if args.endpoint_url:
        raise ConfigurationError("--endpoint-url belongs to --function.")
    from embedding_client.client import EmbeddingClient  # noqa: PLC0415  (slow)

    return EmbeddingClient(
        args.url,
        auth=auth_for(args.url, args),
        allow_plain_http=args.allow_plain_http,
        concurrency=args.concurrency,
        vector_space=vector_space,
    )


def auth_for(url: str, args: argparse.Namespace) -> "httpx.Auth":
    """Return what authenticates requests to a URL, by the arguments.

    Raises:
        ConfigurationError: If there is no such API key.
    """
    from embedding_client.api_key import read_key  # noqa: PLC0415  (slow)
    from embedding_client.endpoint_arguments import choose_auth  # noqa: PLC0415  (slow)
    from embedding_client.targets import UrlTarget  # noqa: PLC0415  (slow)

    return choose_auth(
        UrlTarget(url),
        allow_plain_http=args.allow_plain_http,
        api_key=args.api_key_env and read_key(args.api_key_env),
        profile=args.profile,
        region=args.region,
    )


def note_space(args: argparse.Namespace, client: "EmbeddingClient") -> None:
    """Note the vector space of a URL, with which `embed doctor` compares it later."""
    from embedding_client.used_spaces import note_use  # noqa: PLC0415  (slow)

    if not args.function:
        note_use(args.url, client.vector_space)


def _to_function(args: argparse.Namespace, vector_space: str | None) -> "EmbeddingClient":
    from embedding_client.client import EmbeddingClient  # noqa: PLC0415  (slow)
    from embedding_client.invoke import function_target  # noqa: PLC0415  (slow)
    from embedding_client.signing import SigV4Auth  # noqa: PLC0415  (slow)

    if args.api_key_env:
        raise ConfigurationError(
            "--api-key-env belongs to a URL. Lambda's Invoke takes a signature only."
        )
    target = function_target(
        args.function,
        endpoint_url=args.endpoint_url,
        region=args.region,
        profile=args.profile,
        allow_plain_http=args.allow_plain_http,
    )
    return EmbeddingClient(
        function=target.name,
        endpoint_url=target.api,
        region=target.region,
        auth=SigV4Auth(
            profile=args.profile,
            region=target.region,
            hosts=[target.host],
            allow_plain_http=args.allow_plain_http,
        ),
        allow_plain_http=args.allow_plain_http,
        concurrency=args.concurrency,
        vector_space=vector_space,
    )
