"""The client for asynchronous programs, on asyncio or trio."""

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import urlsplit

import anyio
import httpx
import numpy as np
import numpy.typing as npt

from embedding_client.batches import Batch, BatchLimits, batches, halves
from embedding_client.client import DEFAULT_TIMEOUT, EmbedKeywords, empty, unreachable
from embedding_client.errors import AnswerError
from embedding_client.protocol import (
    EmbedOptions,
    Match,
    check_texts,
    check_url,
    embed_body,
    similar_body,
)
from embedding_client.replies import Reply, read_matches, read_object, read_vectors, splits
from embedding_client.retries import RetryPolicy
from embedding_client.signing import SigV4Auth
from embedding_client.vector_spaces import VectorSpaceGuard

__all__ = ["AsyncEmbeddingClient"]


class AsyncEmbeddingClient:
    """`EmbeddingClient` for asynchronous programs; the arguments are the same.

    Use it as an asynchronous context manager, or `await client.aclose()`.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None = None,
        vector_space: str | None = None,
        concurrency: int = 4,
        limits: BatchLimits | None = None,
        retries: RetryPolicy | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self._url = check_url(url)
        self._auth = auth or SigV4Auth(hosts=[urlsplit(url).hostname or ""])
        self._guard = VectorSpaceGuard(vector_space)
        self._limits = limits or BatchLimits()
        self._retries = retries or RetryPolicy()
        self._owns_http = http_client is None
        self._http = http_client or httpx.AsyncClient(
            timeout=DEFAULT_TIMEOUT,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=concurrency),
        )
        self._concurrency = concurrency

    @property
    def vector_space(self) -> str | None:
        """The vector space of the latest answer, or the expected one before any."""
        return self._guard.current

    async def embed(
        self, texts: Sequence[str], **options: Unpack[EmbedKeywords]
    ) -> npt.NDArray[Any]:
        """Embeds texts, any number of them; see `EmbeddingClient.embed`."""
        wanted = EmbedOptions(**options)
        check_texts(texts)
        planned = list(batches(texts, self._limits))
        parts = await self._together(planned, wanted)
        return np.concatenate(parts) if parts else empty(wanted)

    async def embed_one(self, text: str, **options: Unpack[EmbedKeywords]) -> npt.NDArray[Any]:
        """Embeds one text; returns its vector, an array (dimension,)."""
        vector: npt.NDArray[Any] = (await self.embed([text], **options))[0]
        return vector

    async def iter_embed(
        self, texts: Iterable[str], **options: Unpack[EmbedKeywords]
    ) -> AsyncIterator[npt.NDArray[Any]]:
        """Embeds a stream of texts; yields arrays (some, dimension) in the texts' order."""
        wanted = EmbedOptions(**options)
        planned = batches(_checked(texts), self._limits)
        while window := list(islice(planned, self._concurrency)):
            for part in await self._together(window, wanted):
                yield part

    async def similar(self, text: str, *, num_results: int = 10) -> list[Match]:
        """Searches the index that the endpoint carries; best match first."""
        check_texts([text])
        reply = await self._send("POST", "/similar", similar_body(text, num_results))
        matches, space = read_matches(reply)
        self._guard.check(space)
        return matches

    async def info(self) -> dict[str, Any]:
        """Returns what the endpoint tells about itself: model, limits, prompts, vector space."""
        return read_object(await self._send("GET", "/info"))

    async def health(self) -> dict[str, Any]:
        """Returns the endpoint's state; it answers once the model is loaded."""
        return read_object(await self._send("GET", "/health"))

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _together(
        self, planned: Sequence[Batch], options: EmbedOptions
    ) -> list[npt.NDArray[Any]]:
        parts: list[npt.NDArray[Any]] = [np.empty(0)] * len(planned)
        limiter = anyio.CapacityLimiter(self._concurrency)

        async def run(position: int, batch: Batch) -> None:
            async with limiter:
                parts[position] = await self._embed(batch, options)

        try:
            async with anyio.create_task_group() as group:
                for position, batch in enumerate(planned):
                    group.start_soon(run, position, batch)
        except BaseExceptionGroup as errors:
            # A caller of one method expects one error; the others are those that it cancelled.
            raise errors.exceptions[0] from None
        return parts

    async def _embed(self, batch: Batch, options: EmbedOptions) -> npt.NDArray[Any]:
        count = len(batch.texts)
        reply = await self._send("POST", "/", embed_body(batch.texts, options), count=count)
        if splits(reply, count=count):
            return np.concatenate([await self._embed(half, options) for half in halves(batch)])
        try:
            vectors, space = read_vectors(reply, count=count, options=options)
        except AnswerError as error:
            if error.position is None:
                raise
            raise error.at(batch.start + error.position) from None
        self._guard.check(space)
        return vectors

    async def _send(
        self, method: str, path: str, body: bytes | None = None, *, count: int = 1
    ) -> Reply:
        headers = {"content-type": "application/json"} if body is not None else {}
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.request(
                    method, self._url + path, content=body, headers=headers, auth=self._auth
                )
            except (httpx.TransportError, httpx.DecodingError) as error:
                wait = self._retries.wait(attempt)
                if wait is None:
                    raise unreachable(self._url, attempt, error) from error
            else:
                reply = Reply(
                    status=response.status_code, headers=response.headers, body=response.content
                )
                if not self._retries.retries(reply.status) or splits(reply, count=count):
                    return reply
                wait = self._retries.wait(attempt, reply.headers)
                if wait is None:
                    return reply
            await anyio.sleep(wait)


def _checked(texts: Iterable[str]) -> Iterable[str]:
    for position, text in enumerate(texts):
        check_texts([text], start=position)
        yield text
