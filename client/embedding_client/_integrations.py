"""The common part of the classes for LangChain and LlamaIndex."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from embedding_client._async_client import AsyncEmbeddingClient
from embedding_client._client import EmbeddingClient
from embedding_client._protocol import EmbedOptions, Match


class RoleEmbedder:
    """Embeds documents and queries as lists of floats, blocking and asynchronously.

    Documents use the model's document prompt and queries use its query prompt, if it has them.
    """

    def __init__(self, connection: Mapping[str, Any], options: EmbedOptions) -> None:
        self._connection = connection
        self._client = EmbeddingClient(**connection)
        self._options = options

    def embed(self, texts: list[str], role: str) -> list[list[float]]:
        """Embed texts of a role: `document` or `query`."""
        return _lists(self._client.embed(texts, **self._options_for(role)))

    async def embed_async(self, texts: list[str], role: str) -> list[list[float]]:
        """Embed texts of a role asynchronously."""
        # One client for each call, because connections belong to one event loop.
        connection = {**self._connection, "vector_space": self._client.vector_space}
        async with AsyncEmbeddingClient(**connection) as client:
            return _lists(await client.embed(texts, **self._options_for(role)))

    def _options_for(self, role: str) -> EmbedOptions:
        if self._options.get("prompt") or self._options.get("input_type"):
            return self._options
        return {**self._options, "input_type": role}


class Searcher:
    """Searches the endpoint's index by `POST /search`, blocking and asynchronously."""

    def __init__(
        self, connection: Mapping[str, Any], *, top: int, options: Mapping[str, Any]
    ) -> None:
        self._connection = connection
        self._client = EmbeddingClient(**connection)
        # With one of its options `POST /search` answers, not `POST /similar`.
        self._options = {"top": top, "candidates": max(top, 50), **options}

    def search(self, query: str) -> list[Match]:
        """Return the matches, best first."""
        return self._client.search(query, **self._options)

    async def search_async(self, query: str) -> list[Match]:
        """Return the matches, best first."""
        # One client for each call, because connections belong to one event loop.
        async with AsyncEmbeddingClient(**self._connection) as client:
            return await client.search(query, **self._options)


def _lists(vectors: npt.NDArray[Any]) -> list[list[float]]:
    lists: list[list[float]] = vectors.tolist()
    return lists
