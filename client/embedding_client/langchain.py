"""LangChain's `Embeddings` for the endpoint: `pip install 'embedding-client[langchain]'`.

from embedding_client.langchain import FunctionUrlEmbeddings

embeddings = FunctionUrlEmbeddings("https://<id>.lambda-url.<region>.on.aws/")
store = InMemoryVectorStore(embeddings)
"""

from typing import Unpack

import httpx
from langchain_core.embeddings import Embeddings

from embedding_client._integrations import RoleEmbedder
from embedding_client._protocol import EmbedOptions

__all__ = ["FunctionUrlEmbeddings"]


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
        auth: httpx.Auth | None = None,
        allow_plain_http: bool = False,
        vector_space: str | None = None,
        concurrency: int = 4,
        **options: Unpack[EmbedOptions],
    ) -> None:
        self._embedder = RoleEmbedder(
            url,
            auth=auth,
            allow_plain_http=allow_plain_http,
            vector_space=vector_space,
            concurrency=concurrency,
            options=options,
        )

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
