"""The signed client for embedding endpoints on AWS Lambda.

Each name is imported from its module on first use, so that `embed --help` and programs that need
only `SigV4Auth` do not import numpy, httpx and botocore.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedding_client.api_key import ApiKeyAuth
    from embedding_client.async_client import AsyncEmbeddingClient
    from embedding_client.batches import BatchLimits
    from embedding_client.client import EmbeddingClient
    from embedding_client.errors import (
        ConfigurationError,
        CredentialsError,
        EmbeddingClientError,
        FileError,
        ForbiddenError,
        RequestError,
        ResponseError,
        ServiceError,
        ThrottledError,
        UnreachableError,
        VectorSpaceError,
    )
    from embedding_client.options import EmbedOptions
    from embedding_client.protocol import Match
    from embedding_client.responses import Part
    from embedding_client.retries import RetryPolicy
    from embedding_client.signing import SigV4Auth

__all__ = [
    "ApiKeyAuth",
    "AsyncEmbeddingClient",
    "BatchLimits",
    "ConfigurationError",
    "CredentialsError",
    "EmbedOptions",
    "EmbeddingClient",
    "EmbeddingClientError",
    "FileError",
    "ForbiddenError",
    "Match",
    "Part",
    "RequestError",
    "ResponseError",
    "RetryPolicy",
    "ServiceError",
    "SigV4Auth",
    "ThrottledError",
    "UnreachableError",
    "VectorSpaceError",
]

# The module of each name that is not an exception of `errors`.
_MODULES = {
    "ApiKeyAuth": "api_key",
    "AsyncEmbeddingClient": "async_client",
    "BatchLimits": "batches",
    "EmbedOptions": "options",
    "EmbeddingClient": "client",
    "Match": "protocol",
    "Part": "responses",
    "RetryPolicy": "retries",
    "SigV4Auth": "signing",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
