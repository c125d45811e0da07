"""LlamaIndex's `BaseEmbedding` on top of the client: `pip install 'embedding-kit[llamaindex]'`.

from embedding_client.llamaindex import FunctionUrlEmbedding

Settings.embed_model = FunctionUrlEmbedding(url="https://<id>.lambda-url.<region>.on.aws/")
"""

from typing import Any

import httpx
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr

from embedding_client.async_client import AsyncEmbeddingClient
from embedding_client.client import EmbeddingClient, EmbedKeywords

__all__ = ["FunctionUrlEmbedding"]


class FunctionUrlEmbedding(BaseEmbedding):
    """Embeds nodes and queries at a Function URL.

    Nodes get the model's document prompt and queries its query prompt, where it has them.
    `embed_batch_size` is how many texts LlamaIndex hands over at once; the client splits them
    further where they would not fit into a request.

    Args:
        url: of the Function URL.
        auth: how to sign; by default with botocore's credentials chain and the URL's region.
        vector_space: the space that the index holds; vectors of another are refused.
        concurrency: how many requests are under way at once.
        options: keywords of `EmbedOptions` for nodes and queries alike. With `prompt`, both get
            that prompt.
        kwargs: of `BaseEmbedding`: `embed_batch_size`, `callback_manager` …
    """

    url: str = Field(description="The Function URL.")
    vector_space: str | None = Field(default=None, description="The space that the index holds.")
    concurrency: int = Field(default=4, ge=1, description="Requests under way at once.")
    options: dict[str, Any] = Field(default_factory=dict, description="How to embed.")
    _auth: httpx.Auth | None = PrivateAttr(default=None)
    _client: EmbeddingClient = PrivateAttr()

    def __init__(self, *, url: str, auth: httpx.Auth | None = None, **kwargs: Any) -> None:
        fields: dict[str, Any] = {"model_name": url, "embed_batch_size": 256, **kwargs, "url": url}
        super().__init__(**fields)
        self._auth = auth
        self._client = EmbeddingClient(**self._connection())

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores this."""
        return "FunctionUrlEmbedding"

    def _connection(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "auth": self._auth,
            "vector_space": self.vector_space,
            "concurrency": self.concurrency,
        }

    def _get_query_embedding(self, query: str) -> list[float]:
        return _lists(self._client.embed([query], **self._asking("query")))[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return _lists(self._client.embed(texts, **self._asking("document")))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        async with self._asynchronous() as client:
            return _lists(await client.embed([query], **self._asking("query")))[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        async with self._asynchronous() as client:
            return _lists(await client.embed(texts, **self._asking("document")))

    def _asynchronous(self) -> AsyncEmbeddingClient:
        # One for each call: connections belong to the event loop that they were made in.
        space = self._client.vector_space or self.vector_space
        return AsyncEmbeddingClient(**{**self._connection(), "vector_space": space})

    def _asking(self, kind: str) -> EmbedKeywords:
        options: EmbedKeywords = self.options  # type: ignore[assignment]  # checked when used
        if options.get("prompt") or options.get("input_type"):
            return options
        return {**options, "input_type": kind}


def _lists(vectors: Any) -> list[list[float]]:
    lists: list[list[float]] = vectors.tolist()
    return lists
