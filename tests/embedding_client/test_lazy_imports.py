"""The package imports each public name on first use."""

import pkgutil
import subprocess
import sys

import pytest

import embedding_client

#: Users may rely on these; each change is for the changelog.
NAMES = """
    ApiKeyAuth AsyncEmbeddingClient AwsError BatchJobs BatchLimits Classified ConfigurationError
    CredentialsError EmbedOptions EmbeddedTexts EmbeddingClient EmbeddingClientError Execution
    Executions FileError ForbiddenError Match Ranked RequestError ResponseError RetryPolicy
    ServiceError SigV4Auth SparseVector TextSource ThrottledError UnreachableError VectorIndex
    VectorSpaceError embed_file ingest_status invocation_event
"""
MODULES = "cli doctor document_summary errors langchain llamaindex models progress rows"


def test_the_public_names():
    """All other modules have an underscore, and are for the package alone."""
    modules = (module.name for module in pkgutil.iter_modules(embedding_client.__path__))
    assert embedding_client.__all__ == NAMES.split()
    assert sorted(name for name in modules if name[0] != "_") == MODULES.split()


@pytest.mark.parametrize("name", embedding_client.__all__)
def test_each_public_name_can_be_imported(name):
    """The module of each name in `__all__` exists and defines it."""
    assert getattr(embedding_client, name).__name__ == name


def test_unknown_names_raise_attribute_error():
    """As in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Client'"):
        _ = embedding_client.Client


def test_importing_the_package_imports_no_library():
    """Each name imports only the libraries that it needs, and the command needs no extra."""
    program = (
        "import sys, embedding_client, embedding_client.cli\n"
        "heavy = {'anyio', 'botocore', 'httpx2', 'numpy', 'tqdm', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from embedding_client import SigV4Auth\n"
        "assert 'botocore' in sys.modules and 'numpy' not in sys.modules\n"
        "import embedding_client._file_embedding, embedding_client._async_client\n"
        "assert not {'langchain_core', 'llama_index', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
