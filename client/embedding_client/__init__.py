"""The signed client for embedding endpoints on AWS Lambda.

Each name is imported from its module on first use, so that `embed --help` and programs that need
only `SigV4Auth` do not import numpy, httpx and botocore.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedding_client._async_client import AsyncEmbeddingClient
    from embedding_client._auth import ApiKeyAuth, SigV4Auth
    from embedding_client._client import EmbeddingClient
    from embedding_client._errors import (
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
    from embedding_client._flows import RetryPolicy
    from embedding_client._protocol import BatchLimits, EmbedOptions, Match, Ranked, SparseVector
    from embedding_client._responses import Part

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
    "Ranked",
    "RequestError",
    "ResponseError",
    "RetryPolicy",
    "ServiceError",
    "SigV4Auth",
    "SparseVector",
    "ThrottledError",
    "UnreachableError",
    "VectorSpaceError",
]

# The module of each name that is not an exception of `_errors`.
_MODULES = {
    "ApiKeyAuth": "_auth",
    "AsyncEmbeddingClient": "_async_client",
    "BatchLimits": "_protocol",
    "EmbedOptions": "_protocol",
    "EmbeddingClient": "_client",
    "Match": "_protocol",
    "Part": "_responses",
    "Ranked": "_protocol",
    "RetryPolicy": "_flows",
    "SigV4Auth": "_auth",
    "SparseVector": "_protocol",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, '_errors')}"), name)
    globals()[name] = value
    return value
