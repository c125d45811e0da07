"""The client for ordinary, blocking programs."""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

import httpx
import numpy as np
import numpy.typing as npt

from embedding_client.batches import Batch, BatchLimits, batches, halves
from embedding_client.errors import AnswerError, RequestError, UnreachableError
from embedding_client.protocol import (
    DataType,
    EmbedOptions,
    Match,
    check_texts,
    check_url,
    embed_body,
    similar_body,
)
from embedding_client.replies import Part, Reply, read_matches, read_object, read_vectors, splits
from embedding_client.retries import RetryPolicy
from embedding_client.signing import SigV4Auth
from embedding_client.vector_spaces import VectorSpaceGuard

__all__ = ["DEFAULT_TIMEOUT", "EmbedKeywords", "EmbeddingClient", "empty"]

_T = TypeVar("_T")

# A cold start and a full batch behind it; Lambda itself ends a request at the function's timeout.
DEFAULT_TIMEOUT = httpx.Timeout(120.0, connect=10.0)


class EmbedKeywords(TypedDict, total=False):
    """The keywords of `EmbedOptions`, which explains them."""

    prompt: str | None
    input_type: str | None
    title: str | None
    dimension: int | None
    dtype: DataType
    truncate: Any


class EmbeddingClient:
    """Sends signed requests to an embedding endpoint.

    Use it as a context manager, or close it. It may be shared between threads.

    Args:
        url: of the Function URL.
        auth: how to sign; by default with botocore's credentials chain and the URL's region.
        vector_space: the space that your stored vectors belong to; answers of another are refused.
            Without it, the first answer decides.
        concurrency: how many requests of one call are under way at once. On Lambda each takes an
            environment of its own.
        limits: the most that one request holds.
        retries: how often and how patiently to try.
        http_client: a client of your own (proxies, certificates); its `auth` is not used.
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
        http_client: httpx.Client | None = None,
    ) -> None:
        self._url = check_url(url)
        self._auth = auth or SigV4Auth(hosts=[urlsplit(url).hostname or ""])
        self._guard = VectorSpaceGuard(vector_space)
        self._limits = limits or BatchLimits()
        self._retries = retries or RetryPolicy()
        self._http = http_client or httpx.Client(
            timeout=DEFAULT_TIMEOUT,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=concurrency),
        )
        self._concurrency = concurrency
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="embedding-client")
        self._closed = threading.Event()
        # Also closes what nobody closed: integrations have no place to do it.
        self._release = weakref.finalize(
            self, _release, self._pool, None if http_client else self._http
        )

    @property
    def vector_space(self) -> str | None:
        """The vector space of the latest answer, or the expected one before any."""
        return self._guard.current

    def embed(self, texts: Sequence[str], **options: Unpack[EmbedKeywords]) -> npt.NDArray[Any]:
        """Embeds texts, any number of them.

        Returns:
            An array (n, dimension), float32 by default; (n, ⌈dimension / 8⌉) for packed bits. Row i
            is the vector of text i.

        Raises:
            EmbeddingClientError: see `embedding_client.errors`.
        """
        wanted = EmbedOptions(**options)
        check_texts(texts)
        parts = list(self._in_order(self._embed, texts, wanted))
        return np.concatenate(parts) if parts else empty(wanted)

    def embed_one(self, text: str, **options: Unpack[EmbedKeywords]) -> npt.NDArray[Any]:
        """Embeds one text; returns its vector, an array (dimension,)."""
        vector: npt.NDArray[Any] = self.embed([text], **options)[0]
        return vector

    def iter_embed(
        self, texts: Iterable[str], **options: Unpack[EmbedKeywords]
    ) -> Iterator[npt.NDArray[Any]]:
        """Embeds a stream of texts; yields arrays (some, dimension) in the texts' order.

        No more texts are taken from the stream than are under way, so it may be endless.
        """
        return self._in_order(self._embed, _checked(texts), EmbedOptions(**options))

    def iter_parts(self, texts: Iterable[str], **options: Unpack[EmbedKeywords]) -> Iterator[Part]:
        """Embeds a stream of texts; a text that the endpoint refuses does not end the stream.

        Yields the vectors and the refusals in the texts' order. Errors that are not about one text,
        such as a missing permission, are raised.
        """
        return self._in_order(self._part, _checked(texts), EmbedOptions(**options))

    def similar(self, text: str, *, num_results: int = 10) -> list[Match]:
        """Searches the index that the endpoint carries; best match first.

        Raises:
            RequestError: with status 404, the endpoint carries no index.
        """
        check_texts([text])
        reply = self._send("POST", "/similar", similar_body(text, num_results))
        matches, space = read_matches(reply)
        self._guard.check(space)
        return matches

    def info(self) -> dict[str, Any]:
        """Returns what the endpoint tells about itself: model, limits, prompts, vector space."""
        return read_object(self._send("GET", "/info"))

    def health(self) -> dict[str, Any]:
        """Returns the endpoint's state; it answers once the model is loaded."""
        return read_object(self._send("GET", "/health"))

    def close(self) -> None:
        """Closes the connections. Requests that wait to be sent or retried are canceled."""
        self._closed.set()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _in_order(
        self,
        embed: Callable[[Batch, EmbedOptions], _T],
        texts: Iterable[str],
        options: EmbedOptions,
    ) -> Iterator[_T]:
        planned = batches(texts, self._limits)
        under_way: deque[Future[_T]] = deque()
        failure: Exception | None = None
        try:
            while True:
                try:
                    batch = next(planned)
                except StopIteration:
                    break
                except Exception as error:
                    failure = error
                    break
                if self._closed.is_set():
                    raise self._closed_error()
                under_way.append(self._pool.submit(embed, batch, options))
                if len(under_way) > self._concurrency:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
            if failure is not None:
                raise failure
        finally:
            for future in under_way:
                future.cancel()

    def _part(self, batch: Batch, options: EmbedOptions) -> Part:
        left = list(range(len(batch.texts)))
        refused: dict[int, RequestError] = {}
        vectors = empty(options)
        while left:
            try:
                vectors = self._embed(Batch(start=0, texts=[batch.texts[i] for i in left]), options)
                break
            except RequestError as error:
                if error.position is None:
                    raise
                position = left.pop(error.position)
                refused[position] = error.at(batch.start + position)
        return Part(count=len(batch.texts), vectors=vectors, refused=refused)

    def _embed(self, batch: Batch, options: EmbedOptions) -> npt.NDArray[Any]:
        count = len(batch.texts)
        reply = self._send("POST", "/", embed_body(batch.texts, options), count=count)
        if splits(reply, count=count):
            return np.concatenate([self._embed(half, options) for half in halves(batch)])
        try:
            vectors, space = read_vectors(reply, count=count, options=options)
        except AnswerError as error:
            if error.position is None:
                raise
            raise error.at(batch.start + error.position) from None
        self._guard.check(space)
        return vectors

    def _send(self, method: str, path: str, body: bytes | None = None, *, count: int = 1) -> Reply:
        headers = {"content-type": "application/json"} if body is not None else {}
        attempt = 0
        while True:
            attempt += 1
            try:
                response = self._http.request(
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
            if self._closed.wait(wait):
                raise self._closed_error()

    def _closed_error(self) -> UnreachableError:
        return UnreachableError(f"The client for {self._url} was closed.")


def _release(pool: ThreadPoolExecutor, http: httpx.Client | None) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    if http is not None:
        http.close()


def empty(options: EmbedOptions) -> npt.NDArray[Any]:
    """The vectors of no texts."""
    return np.empty((0, options.dimension or 0), dtype=np.dtype(options.numpy))


def unreachable(url: str, attempts: int, error: Exception) -> UnreachableError:
    """Says that no answer came."""
    reason = str(error) or type(error).__name__
    return UnreachableError(f"{url} gave no answer in {attempts} attempts: {reason}")


def _checked(texts: Iterable[str]) -> Iterator[str]:
    for position, text in enumerate(texts):
        check_texts([text], start=position)
        yield text
