"""The signed client for embedding endpoints on AWS Lambda."""

from embedding_client.async_client import AsyncEmbeddingClient
from embedding_client.batches import BatchLimits
from embedding_client.client import EmbeddingClient
from embedding_client.errors import (
    AnswerError,
    ConfigurationError,
    CredentialsError,
    EmbeddingClientError,
    FileError,
    ForbiddenError,
    RequestError,
    ServiceError,
    ThrottledError,
    UnreachableError,
    VectorSpaceError,
)
from embedding_client.protocol import Match
from embedding_client.retries import RetryPolicy
from embedding_client.signing import SigV4Auth

__all__ = [
    "AnswerError",
    "AsyncEmbeddingClient",
    "BatchLimits",
    "ConfigurationError",
    "CredentialsError",
    "EmbeddingClient",
    "EmbeddingClientError",
    "FileError",
    "ForbiddenError",
    "Match",
    "RequestError",
    "RetryPolicy",
    "ServiceError",
    "SigV4Auth",
    "ThrottledError",
    "UnreachableError",
    "VectorSpaceError",
]
