"""What the package offers."""

import embedding_client


def test_the_public_surface_is_this():
    """A name more or less is a decision, not an accident."""
    assert embedding_client.__all__ == [
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
    assert all(hasattr(embedding_client, name) for name in embedding_client.__all__)
