"""LangChain's embeddings and a retriever: `pip install 'embedding-client[langchain]'`.

from embedding_client.langchain import FunctionUrlEmbeddings

embeddings = FunctionUrlEmbeddings("https://<id>.lambda-url.<region>.on.aws/")
store = InMemoryVectorStore(embeddings)
"""

from typing import Any, Unpack

import httpx2
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from embedding_client._integrations import RoleEmbedder, Searcher
from embedding_client._protocol import EmbedOptions, Match

__all__ = ["FunctionUrlEmbeddings", "FunctionUrlRetriever"]


class FunctionUrlEmbeddings(Embeddings):
    """Embeds documents and queries at a Function URL.

    Documents use the model's document prompt and queries use its query prompt, if it has them.

    Args:
        url: The Function URL.
        auth: The signer, or an `ApiKeyAuth`. By default, credentials come from botocore's chain and
            the region comes from the URL.
        allow_plain_http: Whether to call a host without TLS other than this machine.
        vector_space: The vector space of the vector store. Vectors of another space are refused.
        concurrency: The number of requests that one call sends at the same time.
        options: See `EmbedOptions`. They apply to documents and queries. With `prompt`, both use
            that prompt.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx2.Auth | None = None,
        allow_plain_http: bool = False,
        vector_space: str | None = None,
        concurrency: int = 4,
        **options: Unpack[EmbedOptions],
    ) -> None:
        connection = {
            "url": url,
            "auth": auth,
            "allow_plain_http": allow_plain_http,
            "vector_space": vector_space,
            "concurrency": concurrency,
        }
        self._embedder = RoleEmbedder(connection, options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed a list of documents of any length."""
        return self._embedder.embed(texts, "document")

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return self._embedder.embed([text], "query")[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed a list of documents asynchronously."""
        return await self._embedder.embed_async(texts, "document")

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a query asynchronously."""
        return (await self._embedder.embed_async([text], "query"))[0]


class FunctionUrlRetriever(BaseRetriever):
    """Finds documents by the endpoint's `POST /search`; it has the index and the reranker.

    Args:
        url: The Function URL.
        auth: See `FunctionUrlEmbeddings`, also for the next two.
        allow_plain_http: Whether to call a host without TLS other than this machine.
        vector_space: The vector space of the index. Another one is refused.
        k: The largest number of documents.
        search_kwargs: The `mode`, `candidates`, `rerank` and `filter` of `EmbeddingClient.search`.
    """

    url: str
    auth: Any = None
    allow_plain_http: bool = False
    vector_space: str | None = None
    k: int = 10
    search_kwargs: dict[str, Any] = {}  # noqa: RUF012  (pydantic copies it)
    _searcher: Any = None

    def model_post_init(self, context: Any, /) -> None:
        """Make the client."""
        super().model_post_init(context)
        names = ("url", "auth", "allow_plain_http", "vector_space")
        connection = {name: getattr(self, name) for name in names}
        self._searcher = Searcher(connection, top=self.k, options=self.search_kwargs)

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [_document(match) for match in self._searcher.search(query)]

    async def _aget_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [_document(match) for match in await self._searcher.search_async(query)]


def _document(match: Match) -> Document:
    metadata = {**match.metadata, "score": match.score}
    return Document(page_content=match.text or "", id=match.id, metadata=metadata)
