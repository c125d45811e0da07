"""LlamaIndex's `BaseEmbedding` for the endpoint: `pip install 'embedding-client[llamaindex]'`.

from embedding_client.llamaindex import FunctionUrlEmbedding

Settings.embed_model = FunctionUrlEmbedding(url="https://<id>.lambda-url.<region>.on.aws/")
"""

from typing import Any

import httpx
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr

from embedding_client._integrations import RoleEmbedder
from embedding_client._protocol import EmbedOptions

__all__ = ["FunctionUrlEmbedding"]


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

    def __init__(self, *, url: str, auth: httpx.Auth | None = None, **kwargs: Any) -> None:
        fields: dict[str, Any] = {"model_name": url, "embed_batch_size": 256, **kwargs, "url": url}
        super().__init__(**fields)
        options: EmbedOptions = self.options  # type: ignore[assignment]  # checked by the client
        self._embedder = RoleEmbedder(
            url,
            auth=auth,
            allow_plain_http=self.allow_plain_http,
            vector_space=self.vector_space,
            concurrency=self.concurrency,
            options=options,
        )

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
