"""LangChain's `Embeddings` for the endpoint: `pip install 'embedding-kit[langchain]'`.

from embedding_client.langchain import FunctionUrlEmbeddings

embeddings = FunctionUrlEmbeddings("https://<id>.lambda-url.<region>.on.aws/")
store = InMemoryVectorStore(embeddings)
"""

from typing import Any, Unpack

import httpx
from langchain_core.embeddings import Embeddings

from embedding_client.async_client import AsyncEmbeddingClient
from embedding_client.client import EmbeddingClient
from embedding_client.options import EmbedOptions

__all__ = ["FunctionUrlEmbeddings"]


class FunctionUrlEmbeddings(Embeddings):
    """Embeds documents and queries at a Function URL.

    Documents use the model's document prompt and queries use its query prompt, if it has them.

    Args:
        url: The Function URL.
        auth: The signer. By default, credentials come from botocore's chain and the region comes
            from the URL.
        vector_space: The vector space of the vector store. Vectors of another space are refused.
        concurrency: The number of requests that one call sends at the same time.
        options: See `EmbedOptions`. They apply to documents and queries. With `prompt`, both use
            that prompt.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None = None,
        vector_space: str | None = None,
        concurrency: int = 4,
        **options: Unpack[EmbedOptions],
    ) -> None:
        self._connection: dict[str, Any] = {
            "url": url,
            "auth": auth,
            "vector_space": vector_space,
            "concurrency": concurrency,
        }
        self._client = EmbeddingClient(**self._connection)
        self._options = options

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed a list of documents of any length."""
        return _lists(self._client.embed(texts, **self._options_for("document")))

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return _lists(self._client.embed([text], **self._options_for("query")))[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed a list of documents asynchronously."""
        async with self._async_client() as client:
            return _lists(await client.embed(texts, **self._options_for("document")))

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a query asynchronously."""
        async with self._async_client() as client:
            return _lists(await client.embed([text], **self._options_for("query")))[0]

    def _async_client(self) -> AsyncEmbeddingClient:
        # One client for each call, because connections belong to one event loop.
        space = self._client.vector_space or self._connection["vector_space"]
        return AsyncEmbeddingClient(**{**self._connection, "vector_space": space})

    def _options_for(self, input_type: str) -> EmbedOptions:
        if self._options.get("prompt") or self._options.get("input_type"):
            return self._options
        return {**self._options, "input_type": input_type}


def _lists(vectors: Any) -> list[list[float]]:
    lists: list[list[float]] = vectors.tolist()
    return lists
