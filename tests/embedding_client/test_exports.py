"""What the package offers."""

import subprocess
import sys

import pytest

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
        "Part",
        "RequestError",
        "RetryPolicy",
        "ServiceError",
        "SigV4Auth",
        "ThrottledError",
        "UnreachableError",
        "VectorSpaceError",
    ]
    assert all(hasattr(embedding_client, name) for name in embedding_client.__all__)


def test_a_name_that_is_not_there_is_an_error():
    """As in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Client'"):
        _ = embedding_client.Client


def test_importing_the_package_imports_no_library():
    """Each name brings its own imports when it is first used."""
    program = (
        "import sys, embedding_client\n"
        "heavy = {'anyio', 'botocore', 'httpx', 'numpy', 'tqdm', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from embedding_client import SigV4Auth\n"
        "assert 'botocore' in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
