"""The logic of each API call, without I/O, shared by the blocking and the asynchronous client.

A call is a generator that yields the requests to send, as httpx2's `Auth.auth_flow` does. The
client that drives it waits for `delay` seconds, sends the request, and sends the response back into
the generator, or throws the transport error into it. The generator returns the result of the call.
"""

import base64
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Generic, TypeVar

import httpx2
import numpy as np
import numpy.typing as npt

from embedding_client._protocol import (
    Batch,
    BatchLimits,
    Classified,
    EmbedOptions,
    Match,
    Ranked,
    SparseVector,
    batches,
    check_options,
    checked,
    embed_body,
    halves,
    json_body,
    numpy_type,
)
from embedding_client._responses import (
    EmbeddedTexts,
    VectorSpaceGuard,
    read_labels,
    read_matches,
    read_object,
    read_scores,
    read_sparse,
    read_vectors,
    should_split,
)
from embedding_client._targets import (
    EndpointRequest,
    Target,
    UrlTarget,
    check_url,
    choose_auth,
    function_target,
)
from embedding_client.errors import (
    ConfigurationError,
    RequestError,
    ResponseError,
    UnreachableError,
)

_RETRIED = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The number of attempts, and the delays between them.

    Attributes:
        attempts: The maximum number of times that a request is sent.
        base: Seconds; the ceiling of the first delay. It doubles with each attempt.
        ceiling: Seconds; the maximum of the ceiling.
        longest_wait: Seconds; the maximum `Retry-After` to wait for. With a longer one, the client
            raises the error.
    """

    attempts: int = 6
    base: float = 0.25
    ceiling: float = 20.0
    longest_wait: float = 120.0

    def retries(self, status: int) -> bool:
        """Return whether a response with this status is retried."""
        return status in _RETRIED

    def wait(self, attempt: int, headers: Mapping[str, str] | None = None) -> float | None:
        """Return the seconds to wait after a failed attempt, or None to give up.

        Args:
            attempt: The number of attempts so far, from 1.
            headers: The headers of the response, for `Retry-After`, and for `x-should-retry` as
                OpenAI's clients read it: a monthly quota is not over in a moment.
        """
        if attempt >= self.attempts or (headers or {}).get("x-should-retry") == "false":
            return None
        jitter = random.uniform(0, min(self.ceiling, self.base * 2 ** (attempt - 1)))  # noqa: S311  (not cryptography)
        requested = _retry_after(headers or {})
        return None if requested > self.longest_wait else requested + jitter


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of `Retry-After` in either form (RFC 9110, 10.2.3), or 0 without one."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


_T = TypeVar("_T")

#: Enough for a cold start and a full batch. Lambda ends a request at the function's timeout.
TIMEOUT = httpx2.Timeout(120.0, connect=10.0)
#: The exceptions of httpx2 to throw into a flow. They may be temporary, so the flow decides.
TRANSPORT_ERRORS = (httpx2.TransportError, httpx2.DecodingError)

Flow = Generator[EndpointRequest, httpx2.Response, _T]


class EmbeddingFlows:
    """Makes the flows of one client's calls."""

    def __init__(
        self,
        target: Target,
        *,
        vector_space: str | None,
        limits: BatchLimits | None,
        retries: RetryPolicy | None,
    ) -> None:
        self.target = target
        self.guard = VectorSpaceGuard(vector_space)
        self._limits = limits or BatchLimits()
        self._retries = retries or RetryPolicy()

    def split(
        self,
        call: Callable[[Batch, EmbedOptions], Flow[_T]],
        texts: Iterable[str],
        options: EmbedOptions,
    ) -> Iterator[Flow[_T]]:
        """Check the options, and return the flow of each batch of texts, in order.

        If reading the texts fails, the last flow raises that error, so that a caller that runs the
        flows in order still gets the results of the batches before it.
        """
        check_options(options)

        def flows() -> Iterator[Flow[_T]]:
            try:
                for batch in batches(checked(texts), self._limits):
                    yield call(batch, options)
            except Exception as error:
                yield _failure(error)

        return flows()

    def embed_all(
        self, texts: Iterable[str], options: EmbedOptions
    ) -> Iterator[Flow[npt.NDArray[Any]]]:
        """Check all texts before the first is sent, and return the flow of each batch."""
        check_options(options)  # Wrong ones use up no iterable.
        return self.split(self.embed, list(checked(texts)), options)

    def embed(self, batch: Batch, options: EmbedOptions) -> Flow[npt.NDArray[Any]]:
        """Embed a batch. Return an array of shape (texts, dimensions)."""
        arrays = yield from self._in_parts(
            "/", batch, partial(embed_body, options=options), partial(read_vectors, options=options)
        )
        return np.concatenate(arrays)

    def part(self, batch: Batch, options: EmbedOptions) -> Flow[EmbeddedTexts]:
        """Embed a batch. Texts that the endpoint refuses become errors in the result."""
        remaining = list(range(len(batch.texts)))
        refused: dict[int, RequestError] = {}
        vectors = concatenate([], options)
        while remaining:
            texts = [batch.texts[position] for position in remaining]
            try:
                vectors = yield from self.embed(Batch(start=0, texts=texts), options)
                break
            except RequestError as error:
                if error.position is None:
                    raise
                position = remaining.pop(error.position)
                refused[position] = error.at(batch.start + position)
        return EmbeddedTexts(count=len(batch.texts), vectors=vectors, refused=refused)

    def search(
        self, text: str, *, top: int, where: Mapping[str, Any] | None, **options: Any
    ) -> Flow[list[Match]]:
        """Search the endpoint's index, by `POST /search` if it has options."""
        (text,) = checked([text])
        if any(value is not None for value in options.values()):
            body = json_body(query=text, top_k=top, filter=where, **options)
            response = yield from self._exchange("POST", "/search", body)
        else:
            body = json_body(text=text, num_results=top, filter=where)
            response = yield from self._exchange("POST", "/similar", body)
        matches, space = read_matches(response)
        self.guard.check_search(space)
        return matches

    def chunk(self, name: str, data: bytes, **options: Any) -> Flow[dict[str, Any]]:
        """Divide a document. Return its title and its chunks."""
        body = json_body(name=name, data=base64.b64encode(data).decode(), **options)
        response = yield from self._exchange("POST", "/chunk", body)
        return read_object(response)

    def score(
        self, query: str, passages: Iterable[str], *, truncate: bool
    ) -> Iterator[Flow[list[npt.NDArray[np.float64]]]]:
        """Return the flow of each batch of passages to arrays of `read_scores`, for a query."""

        def body(texts: Sequence[str]) -> bytes:
            return json_body(query=query, texts=list(texts), truncate=truncate)

        groups = batches(passages, self._limits)
        return (self._in_parts("/v2/rerank", batch, body, read_scores) for batch in groups)

    def sparse(
        self, texts: Iterable[str], **options: Any
    ) -> Iterator[Flow[list[list[SparseVector]]]]:
        """Check all texts, and yield the flow of each batch to lists of their sparse vectors."""
        return self._each_text("/", texts, options, read_sparse)

    def classify(
        self, texts: Iterable[str], **options: Any
    ) -> Iterator[Flow[list[list[Classified]]]]:
        """Check all texts, and yield the flow of each batch to lists of their labels."""
        return self._each_text("/classify", texts, options, read_labels)

    def _each_text(
        self,
        path: str,
        texts: Iterable[str],
        options: Mapping[str, Any],
        read: Callable[..., tuple[_T, str]],
    ) -> Iterator[Flow[list[_T]]]:
        groups = batches(list(checked(texts)), self._limits)

        def body(texts: Sequence[str]) -> bytes:
            return json_body(texts=list(texts), **options)

        return (self._in_parts(path, batch, body, read) for batch in groups)

    def _in_parts(
        self,
        path: str,
        batch: Batch,
        body: Callable[[Sequence[str]], bytes],
        read: Callable[..., tuple[_T, str]],
    ) -> Flow[list[_T]]:
        """Send a batch, or its halves if it is too large. Return the result of each response."""
        count = len(batch.texts)
        response = yield from self._exchange("POST", path, body(batch.texts), count=count)
        if should_split(response, count=count):
            results = []
            for half in halves(batch):
                results += yield from self._in_parts(path, half, body, read)
            return results
        try:
            result, space = read(response, count=count)
        except ResponseError as error:
            if error.position is None:
                raise
            raise error.at(batch.start + error.position) from None
        self.guard.check(space)
        return [result]

    def get(self, path: str) -> Flow[dict[str, Any]]:
        """Return the JSON object at a path."""
        response = yield from self._exchange("GET", path)
        return read_object(response)

    def _exchange(
        self, method: str, path: str, body: bytes | None = None, *, count: int = 1
    ) -> Flow[httpx2.Response]:
        """Send a request until a response is final or the attempts are used up."""
        attempt, delay = 0, 0.0
        while True:
            attempt += 1
            try:
                sent = yield self.target.request(method, path, body, delay=delay)
                response = self.target.response(sent)
            except TRANSPORT_ERRORS as error:
                wait = self._retries.wait(attempt)
                if wait is None:
                    raise UnreachableError(
                        f"{self.target.name} did not respond in {attempt} attempts: "
                        f"{str(error) or type(error).__name__}"
                    ) from error
            else:
                retried = self._retries.retries(response.status_code)
                if not retried or should_split(response, count=count):
                    return response
                wait = self._retries.wait(attempt, response.headers)
                if wait is None:
                    return response
            delay = wait


_Http = TypeVar("_Http")


class BaseClient(Generic[_Http]):
    """The common part of both clients. `EmbeddingClient` documents the arguments."""

    _http_type: type[_Http]

    def __init__(
        self,
        url: str | None = None,
        *,
        function: str | None = None,
        endpoint_url: str | None = None,
        region: str | None = None,
        auth: httpx2.Auth | None = None,
        api_key: str | None = None,
        allow_plain_http: bool = False,
        vector_space: str | None = None,
        concurrency: int = 4,
        limits: BatchLimits | None = None,
        retries: RetryPolicy | None = None,
        http_client: _Http | None = None,
    ) -> None:
        if (url is None) is (function is None):
            raise ConfigurationError(
                "Give the endpoint's URL or function=, not both; found "
                + ("neither." if url is None else "both.")
            )
        target: Target
        if function is not None:
            target = function_target(
                function,
                endpoint_url=endpoint_url,
                region=region,
                allow_plain_http=allow_plain_http,
            )
        elif endpoint_url is not None or region is not None:
            raise ConfigurationError("endpoint_url and region belong to function=; found a URL.")
        else:
            target = UrlTarget(check_url(url or "", allow_plain_http=allow_plain_http))
        self._flows = EmbeddingFlows(
            target, vector_space=vector_space, limits=limits, retries=retries
        )
        self._auth = choose_auth(
            target, auth=auth, api_key=api_key, allow_plain_http=allow_plain_http
        )
        self._concurrency = concurrency
        if http_client is not None and not isinstance(http_client, self._http_type):
            kind = type(http_client)
            raise ConfigurationError(
                f"http_client must be an httpx2.{self._http_type.__name__}; found "
                f"{kind.__module__}.{kind.__qualname__}, a class of another library."
            )
        self._given_http = http_client
        #: The arguments of an HTTP client of its own.
        self._own_http: dict[str, Any] = {
            "timeout": TIMEOUT,
            "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=concurrency),
        }
        self._open()

    def _open(self) -> None:
        """Make what sends the requests."""
        raise NotImplementedError

    def _http_request(self, request: EndpointRequest) -> dict[str, Any]:
        return {
            "method": request.method,
            "url": request.url,
            "content": request.content,
            "headers": request.headers,
            "auth": self._auth,
        }

    @property
    def vector_space(self) -> str | None:
        """The vector space of the latest vectors, or the expected one before the first."""
        return self._flows.guard.current


def check_rerank(query: str, passages: Iterable[str], top_k: int | None) -> list[str]:
    """Return the passages, checked before anything is sent."""
    if not isinstance(query, str) or not query.strip():
        raise ConfigurationError(f"query must be a text that is not blank; found {query!r}.")
    if top_k is not None and top_k < 1:
        raise ConfigurationError(f"top_k must be at least 1, or None for all; found {top_k}.")
    list(checked([query]))
    return list(checked(passages))


def ranked(
    passages: Sequence[str], results: Sequence[list[npt.NDArray[np.float64]]], top_k: int | None
) -> list[Ranked]:
    """Return the passages with their scores, the best first; of equal ones, the first one."""
    scores = [row for batch in results for array in batch for row in array.tolist()]
    # The score first: of two versions that answer one call, the older one may have no logits.
    order = sorted(range(len(scores)), key=lambda index: scores[index], reverse=True)
    return [
        Ranked(index=index, score=scores[index][0], passage=passages[index])
        for index in order[:top_k]
    ]


def joined(batches: Iterable[Iterable[Iterable[_T]]]) -> list[_T]:
    """Return the results of all texts, in order, from the responses to each batch."""
    return [result for batch in batches for response in batch for result in response]


def concatenate(arrays: list[npt.NDArray[Any]], options: EmbedOptions) -> npt.NDArray[Any]:
    """Return the rows of all arrays, or an empty array of the requested type and length."""
    if arrays:
        return np.concatenate(arrays)
    return np.empty((0, options.get("dimensions") or 0), dtype=numpy_type(options))


def _failure(error: Exception) -> Flow[Any]:
    raise error
    yield
