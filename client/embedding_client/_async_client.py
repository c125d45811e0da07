"""The asynchronous client, for asyncio and trio."""

from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Generic, Self, TypeVar, Unpack

import anyio
import httpx2
import numpy.typing as npt
from anyio.abc import TaskGroup

from embedding_client._flows import (
    TRANSPORT_ERRORS,
    BaseClient,
    Flow,
    check_rerank,
    concatenate,
    joined,
    ranked,
)
from embedding_client._protocol import Classified, EmbedOptions, Match, Ranked, SparseVector
from embedding_client._responses import EmbeddedTexts
from embedding_client._targets import EndpointRequest
from embedding_client.errors import ConfigurationError, UnreachableError

_T = TypeVar("_T")


class AsyncEmbeddingClient(BaseClient[httpx2.AsyncClient]):
    """The asynchronous `EmbeddingClient`, with the same arguments.

    Use it as an asynchronous context manager. Without one, call `aclose`; `iter_embed` and
    `iter_parts` are then not available, because their requests run in the context's tasks.
    """

    _http_type = httpx2.AsyncClient

    def _open(self) -> None:
        self._http = self._given_http or httpx2.AsyncClient(**self._own_http)
        self._closed = False
        self._context = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    async def embed(
        self, texts: Iterable[str], **options: Unpack[EmbedOptions]
    ) -> npt.NDArray[Any]:
        """Embed texts: a list or any iterable, of any length. See `EmbeddingClient.embed`."""
        return concatenate(await self._all(self._flows.embed_all(texts, options)), options)

    async def embed_one(self, text: str, **options: Unpack[EmbedOptions]) -> npt.NDArray[Any]:
        """Embed one text. Return its vector, an array of shape (dimensions,)."""
        vector: npt.NDArray[Any] = (await self.embed([text], **options))[0]
        return vector

    def iter_embed(
        self, texts: Iterable[str], **options: Unpack[EmbedOptions]
    ) -> AsyncGenerator[npt.NDArray[Any], None]:
        """Embed a stream of texts. See `EmbeddingClient.iter_embed`.

        To stop before the end of the stream, use `contextlib.aclosing`. It cancels the requests
        that are in flight.

        Raises:
            ConfigurationError: If the client is not in use as a context manager.
        """
        flows = self._flows.split(self._flows.embed, texts, options)
        return self._in_order(self._context_tasks(), flows)

    def iter_parts(
        self, texts: Iterable[str], **options: Unpack[EmbedOptions]
    ) -> AsyncGenerator[EmbeddedTexts, None]:
        """Embed a stream of texts, and continue after refused ones. See `EmbeddingClient`.

        Raises:
            ConfigurationError: If the client is not in use as a context manager.
        """
        flows = self._flows.split(self._flows.part, texts, options)
        return self._in_order(self._context_tasks(), flows)

    async def search(
        self,
        text: str,
        *,
        top: int = 10,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  (the API's name)
        mode: str | None = None,
        candidates: int | None = None,
        rerank: bool | None = None,
    ) -> list[Match]:
        """Search the endpoint's index. See `EmbeddingClient.search`."""
        options = {"mode": mode, "candidates": candidates, "rerank": rerank}
        return await self._run(self._flows.search(text, top=top, where=filter, **options))

    async def rerank(
        self,
        query: str,
        passages: Iterable[str],
        *,
        top_k: int | None = None,
        truncate: bool = True,
    ) -> list[Ranked]:
        """Rank passages for a query with a reranker. See `EmbeddingClient.rerank`."""
        texts = check_rerank(query, passages, top_k)
        flows = self._flows.score(query, texts, truncate=truncate)
        return ranked(texts, await self._all(flows), top_k)

    async def embed_sparse(
        self,
        texts: Iterable[str],
        *,
        prompt: str | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
        truncate: bool | None = None,
    ) -> list[SparseVector]:
        """Encode texts with a sparse encoder. See `EmbeddingClient.embed_sparse`."""
        flows = self._flows.sparse(
            texts, prompt_name=prompt, top_k=top_k, threshold=threshold, truncate=truncate
        )
        return joined(await self._all(flows))

    async def classify(
        self, texts: Iterable[str], *, raw_scores: bool = False, truncate: bool | None = None
    ) -> list[Classified]:
        """Label texts with a classifier. See `EmbeddingClient.classify`."""
        options = {"raw_scores": raw_scores or None, "truncate": truncate}
        return joined(await self._all(self._flows.classify(texts, **options)))

    async def similar(self, text: str, *, num_results: int = 10) -> list[Match]:
        """Search the endpoint's index without a filter. See `search`."""
        return await self.search(text, top=num_results)

    async def chunk(
        self,
        name: str,
        data: bytes,
        *,
        metadata: Iterable[str] = (),
        chunk_tokens: int | None = None,
        overlap_tokens: int | None = None,
    ) -> dict[str, Any]:
        """Divide a document into chunks. See `EmbeddingClient.chunk`."""
        return await self._run(
            self._flows.chunk(
                name,
                data,
                metadata=[*metadata],
                chunk_tokens=chunk_tokens,
                overlap_tokens=overlap_tokens,
            )
        )

    async def info(self) -> dict[str, Any]:
        """Return the endpoint's description: model, limits, prompts, vector space."""
        return await self._run(self._flows.get("/info"))

    async def health(self) -> dict[str, Any]:
        """Return the endpoint's health. It responds once the model is loaded."""
        return await self._run(self._flows.get("/health"))

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._given_http is None:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        self._context.push_async_callback(self.aclose)
        self._tasks = await self._context.enter_async_context(_task_group())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks = None
        await self._context.aclose()

    def _context_tasks(self) -> TaskGroup:
        if self._tasks is None:
            raise ConfigurationError(
                "Streams need the client as a context manager: "
                "async with AsyncEmbeddingClient(url) as client."
            )
        return self._tasks

    async def _all(self, flows: Iterator[Flow[_T]]) -> list[_T]:
        async with _task_group() as tasks:
            return [result async for result in self._in_order(tasks, flows)]

    async def _in_order(
        self, tasks: TaskGroup, flows: Iterator[Flow[_T]]
    ) -> AsyncGenerator[_T, None]:
        pending: deque[_Task[_T]] = deque()
        slots = anyio.Semaphore(self._concurrency)
        try:
            for flow in flows:
                # Acquired here and not in the task, because trio starts tasks in any order.
                await slots.acquire()
                pending.append(_Task(partial(self._run, flow), slots))
                tasks.start_soon(pending[-1].run)
                if len(pending) > self._concurrency:
                    yield await pending.popleft().result()
            while pending:
                yield await pending.popleft().result()
        finally:
            for task in pending:
                task.cancel()

    async def _run(self, flow: Flow[_T]) -> _T:
        step: Callable[[], EndpointRequest] = partial(next, flow)
        while True:
            try:
                request = step()
            except StopIteration as end:
                result: _T = end.value
                return result
            await anyio.sleep(request.delay)
            try:
                response = await self._http.request(**self._http_request(request))
            except TRANSPORT_ERRORS as error:
                step = partial(flow.throw, error)
            else:
                step = partial(flow.send, response)
                stream = response.extensions.get("network_stream")
                if stream and self._closed and self._given_http is None:
                    # The client was closed before this connection was made: nothing else ends it.
                    await stream.aclose()


class _Task(Generic[_T]):
    """A coroutine that runs in a task group, with its result: a future for asyncio and trio."""

    def __init__(self, run: Callable[[], Awaitable[_T]], slots: anyio.Semaphore) -> None:
        self._run = run
        self._slots = slots
        self._scope = anyio.CancelScope()
        self._done = anyio.Event()
        self._result: list[_T] = []
        self._error: Exception = UnreachableError("The client was closed.")

    async def run(self) -> None:
        """Run the coroutine, keep its result or its error, and release its slot."""
        with self._scope:
            try:
                self._result.append(await self._run())
            except Exception as error:
                self._error = error
            finally:
                self._slots.release()
                self._done.set()

    async def result(self) -> _T:
        """Wait for the coroutine to end. Return its result, or raise its error."""
        await self._done.wait()
        if not self._result:
            raise self._error
        return self._result[0]

    def cancel(self) -> None:
        """Cancel the coroutine, whether it has started or not."""
        self._scope.cancel()


@asynccontextmanager
async def _task_group() -> AsyncIterator[TaskGroup]:
    """Open a task group, cancel its tasks at the end, and raise the body's own error.

    A plain task group would wait for its tasks, and wrap the error of the body in a group.
    """
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    try:
        yield tasks
    finally:
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)
