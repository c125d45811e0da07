"""The client that the arguments of `embed` describe."""

import argparse
import os
from typing import TYPE_CHECKING

from embedding_client.arguments import URL_VARIABLE
from embedding_client.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx

    from embedding_client.client import EmbeddingClient

__all__ = ["connect_to", "note_space"]


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
    if args.concurrency < 1:
        raise ConfigurationError(f"--concurrency must be 1 or more; found {args.concurrency}.")
    if args.function:
        return _to_function(args, vector_space)
    if args.endpoint_url:
        raise ConfigurationError("--endpoint-url belongs to --function.")
    from embedding_client.client import EmbeddingClient  # noqa: PLC0415  (slow)

    return EmbeddingClient(
        args.url, auth=_auth(args), concurrency=args.concurrency, vector_space=vector_space
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

    if args.api_key_variable:
        raise ConfigurationError(
            "--api-key-variable belongs to a URL. Lambda's Invoke takes a signature only."
        )
    target = function_target(
        args.function, endpoint_url=args.endpoint_url, region=args.region, profile=args.profile
    )
    return EmbeddingClient(
        function=target.name,
        endpoint_url=target.api,
        region=target.region,
        auth=SigV4Auth(profile=args.profile, region=target.region, hosts=[target.host]),
        concurrency=args.concurrency,
        vector_space=vector_space,
    )


def _auth(args: argparse.Namespace) -> "httpx.Auth":
    from urllib.parse import urlsplit  # noqa: PLC0415  (slow)

    if args.api_key_variable:
        from embedding_client.api_key import ApiKeyAuth  # noqa: PLC0415  (slow)

        key = os.environ.get(args.api_key_variable)
        if not key:
            raise ConfigurationError(
                f"No API key: --api-key-variable names {args.api_key_variable}, which is not set."
            )
        return ApiKeyAuth(key)
    from embedding_client.signing import SigV4Auth  # noqa: PLC0415  (slow)

    return SigV4Auth(
        profile=args.profile, region=args.region, hosts=[urlsplit(args.url).hostname or ""]
    )
