"""LlamaIndex's embedding and a retriever: `pip install 'embedding-client[llamaindex]'`.

from embedding_client.llamaindex import FunctionUrlEmbedding

Settings.embed_model = FunctionUrlEmbedding(url="https://<id>.lambda-url.<region>.on.aws/")
"""

from collections.abc import Mapping
from typing import Any

import httpx2
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from embedding_client._integrations import RoleEmbedder, Searcher
from embedding_client._protocol import EmbedOptions, Match

__all__ = ["FunctionUrlEmbedding", "FunctionUrlRetriever"]


class FunctionUrlEmbedding(BaseEmbedding):
    """Embeds nodes and queries at a Function URL.

    Nodes use the model's document prompt and queries use its query prompt, if it has them.
    `embed_batch_size` is the number of texts that LlamaIndex passes at a time. The client splits
    them further if they do not fit in one request.

    Args:
        url: The Function URL.
        auth: The signer, or an `ApiKeyAuth`. By default, credentials come from botocore's chain and
            the region comes from the URL.
        allow_plain_http: Whether to call a host without TLS other than this machine.
        vector_space: The vector space of the index. Vectors of another space are refused.
        concurrency: The number of requests to send at the same time.
        options: The keywords of `EmbedOptions`. They apply to nodes and queries. With `prompt`,
            both use that prompt.
        kwargs: The arguments of `BaseEmbedding`: `embed_batch_size`, `callback_manager`, …
    """

    url: str = Field(description="The Function URL.")
    allow_plain_http: bool = Field(default=False, description="Whether TLS may be missing.")
    vector_space: str | None = Field(default=None, description="The vector space of the index.")
    concurrency: int = Field(default=4, ge=1, description="The number of concurrent requests.")
    options: dict[str, Any] = Field(default_factory=dict, description="The embedding options.")
    _embedder: RoleEmbedder = PrivateAttr()

    def __init__(self, *, url: str, auth: httpx2.Auth | None = None, **kwargs: Any) -> None:
        fields: dict[str, Any] = {"model_name": url, "embed_batch_size": 256, **kwargs, "url": url}
        super().__init__(**fields)
        options: EmbedOptions = self.options  # type: ignore[assignment]  # checked by the client
        names = ("url", "allow_plain_http", "vector_space", "concurrency")
        connection = {"auth": auth, **{name: getattr(self, name) for name in names}}
        self._embedder = RoleEmbedder(connection, options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex stores for this class."""
        return "FunctionUrlEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embedder.embed([query], "query")[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.embed(texts, "document")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return (await self._embedder.embed_async([query], "query"))[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._embedder.embed_async(texts, "document")


class FunctionUrlRetriever(BaseRetriever):
    """Finds nodes by the endpoint's `POST /search`; it has the index and the reranker.

    Args:
        url: The Function URL.
        similarity_top_k: The largest number of nodes.
        search_kwargs: The `mode`, `candidates`, `rerank` and `filter` of `EmbeddingClient.search`.
        callback_manager: LlamaIndex's own.
        connection: `auth`, `allow_plain_http` and `vector_space`; see `FunctionUrlEmbedding`.
    """

    def __init__(
        self,
        url: str,
        *,
        similarity_top_k: int = 10,
        search_kwargs: Mapping[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        **connection: Any,
    ) -> None:
        super().__init__(callback_manager=callback_manager)
        self._searcher = Searcher(
            {"url": url, **connection}, top=similarity_top_k, options=search_kwargs or {}
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(match) for match in self._searcher.search(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        matches = await self._searcher.search_async(query_bundle.query_str)
        return [_node(match) for match in matches]


def _node(match: Match) -> NodeWithScore:
    node = TextNode(id_=match.id, text=match.text or "", metadata={**match.metadata})
    return NodeWithScore(node=node, score=match.score)
