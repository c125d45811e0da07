"""The signed client for embedding endpoints on AWS Lambda.

Each name is imported from its module on first use, so that `embed --help` and programs that need
only `SigV4Auth` do not import numpy, httpx2 and botocore.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # `as` exports a name, for type checkers.
    from embedding_client._async_client import AsyncEmbeddingClient as AsyncEmbeddingClient
    from embedding_client._auth import ApiKeyAuth as ApiKeyAuth
    from embedding_client._auth import SigV4Auth as SigV4Auth
    from embedding_client._client import EmbeddingClient as EmbeddingClient
    from embedding_client._file_embedding import embed_file as embed_file
    from embedding_client._flows import RetryPolicy as RetryPolicy
    from embedding_client._index import VectorIndex as VectorIndex
    from embedding_client._ingest_command import ingest_status as ingest_status
    from embedding_client._jobs import BatchJobs as BatchJobs
    from embedding_client._jobs import Execution as Execution
    from embedding_client._jobs import Executions as Executions
    from embedding_client._protocol import BatchLimits as BatchLimits
    from embedding_client._protocol import Classified as Classified
    from embedding_client._protocol import EmbedOptions as EmbedOptions
    from embedding_client._protocol import Match as Match
    from embedding_client._protocol import Ranked as Ranked
    from embedding_client._protocol import SparseVector as SparseVector
    from embedding_client._readers import TextSource as TextSource
    from embedding_client._responses import EmbeddedTexts as EmbeddedTexts
    from embedding_client._targets import invocation_event as invocation_event
    from embedding_client.errors import AwsError as AwsError
    from embedding_client.errors import ConfigurationError as ConfigurationError
    from embedding_client.errors import CredentialsError as CredentialsError
    from embedding_client.errors import EmbeddingClientError as EmbeddingClientError
    from embedding_client.errors import FileError as FileError
    from embedding_client.errors import ForbiddenError as ForbiddenError
    from embedding_client.errors import RequestError as RequestError
    from embedding_client.errors import ResponseError as ResponseError
    from embedding_client.errors import ServiceError as ServiceError
    from embedding_client.errors import ThrottledError as ThrottledError
    from embedding_client.errors import UnreachableError as UnreachableError
    from embedding_client.errors import VectorSpaceError as VectorSpaceError

#: The public names of each module.
_NAMES = {
    "_async_client": "AsyncEmbeddingClient",
    "_auth": "ApiKeyAuth SigV4Auth",
    "_client": "EmbeddingClient",
    "errors": "AwsError ConfigurationError CredentialsError EmbeddingClientError FileError "
    "ForbiddenError RequestError ResponseError ServiceError ThrottledError UnreachableError "
    "VectorSpaceError",
    "_file_embedding": "embed_file",
    "_flows": "RetryPolicy",
    "_index": "VectorIndex",
    "_ingest_command": "ingest_status",
    "_jobs": "BatchJobs Execution Executions",
    "_protocol": "BatchLimits Classified EmbedOptions Match Ranked SparseVector",
    "_readers": "TextSource",
    "_responses": "EmbeddedTexts",
    "_targets": "invocation_event",
}
_MODULES = dict(sorted((name, of) for of, names in _NAMES.items() for name in names.split()))
if not TYPE_CHECKING:  # A type checker reads the imports above.
    __all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
