"""LangChain's `Embeddings` on top of the client: `pip install 'embedding-kit[langchain]'`.

from embedding_client.langchain import FunctionUrlEmbeddings

embeddings = FunctionUrlEmbeddings("https://<id>.lambda-url.<region>.on.aws/")
store = InMemoryVectorStore(embeddings)
"""

from typing import Any, Unpack

import httpx
from langchain_core.embeddings import Embeddings

from embedding_client.async_client import AsyncEmbeddingClient
from embedding_client.client import EmbeddingClient, EmbedKeywords

__all__ = ["FunctionUrlEmbeddings"]


class FunctionUrlEmbeddings(Embeddings):
    """Embeds documents and queries at a Function URL.

    Documents get the model's document prompt and queries its query prompt, where it has them.

    Args:
        url: of the Function URL.
        auth: how to sign; by default with botocore's credentials chain and the URL's region.
        vector_space: the space that the vector store holds; vectors of another are refused.
        concurrency: how many requests of one call are under way at once.
        options: keywords of `EmbedOptions` for documents and queries alike (`dimension`,
            `truncate` …). With `prompt`, both get that prompt.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None = None,
        vector_space: str | None = None,
        concurrency: int = 4,
        **options: Unpack[EmbedKeywords],
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
        """Embeds documents, any number of them."""
        return _lists(self._client.embed(texts, **self._asking("document")))

    def embed_query(self, text: str) -> list[float]:
        """Embeds a query."""
        return _lists(self._client.embed([text], **self._asking("query")))[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embeds documents without blocking."""
        async with self._asynchronous() as client:
            return _lists(await client.embed(texts, **self._asking("document")))

    async def aembed_query(self, text: str) -> list[float]:
        """Embeds a query without blocking."""
        async with self._asynchronous() as client:
            return _lists(await client.embed([text], **self._asking("query")))[0]

    def _asynchronous(self) -> AsyncEmbeddingClient:
        # One for each call: connections belong to the event loop that they were made in.
        space = self._client.vector_space or self._connection["vector_space"]
        return AsyncEmbeddingClient(**{**self._connection, "vector_space": space})

    def _asking(self, kind: str) -> EmbedKeywords:
        if self._options.get("prompt") or self._options.get("input_type"):
            return self._options
        return {**self._options, "input_type": kind}


def _lists(vectors: Any) -> list[list[float]]:
    lists: list[list[float]] = vectors.tolist()
    return lists
