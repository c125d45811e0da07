"""The blocking client."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Self, TypeVar, Unpack

import httpx2
import numpy.typing as npt

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


class EmbeddingClient(BaseClient[httpx2.Client]):
    """Sends signed requests to an embedding endpoint.

    Use it as a context manager, or call `close`. Threads may share a client. Make it after a fork:
    in a child of a process that has sent requests with it, it raises `ConfigurationError`.

    Args:
        url: The Function URL, or the address of an API or a proxy in front of it.
        function: The function with its alias, such as `embedder:live`, instead of a URL. Requests
            then go by Lambda's Invoke, which a private network reaches by an interface endpoint.
        endpoint_url: The URL of Lambda's API for `function`, such as the interface endpoint's own
            name; by default the one that botocore finds.
        region: The region of `function`; by default that of its ARN or of `endpoint_url`, or the
            configured one.
        auth: The signer. By default, credentials come from botocore's chain and the region comes
            from the URL. A host that is not AWS's gets a signature only if it asks for one.
        api_key: The API key for API Gateway in front of the endpoint, or for a server,
            instead of `auth`. Nothing is signed.
        allow_plain_http: Whether to call a host without TLS other than this machine. Texts, vectors
            and keys then travel in the clear.
        vector_space: The vector space of your stored vectors. Responses from another space are
            refused. By default, the first response with vectors sets it.
        concurrency: The number of requests that one call sends at the same time. On Lambda, each of
            them uses its own execution environment.
        limits: The limits of one request.
        retries: The retry policy.
        http_client: Your own HTTP client (for proxies or certificates). Its `auth` is not used.
    """

    _http_type = httpx2.Client

    def embed(self, texts: Iterable[str], **options: Unpack[EmbedOptions]) -> npt.NDArray[Any]:
        """Embed texts: a list or any iterable, of any length.

        Args:
            texts: The texts.
            options: See `EmbedOptions`.

        Returns:
            An array of shape (n, dimensions), float32 by default, or (n, ⌈dimensions / 8⌉) for
            packed bits. Row i is the vector of text i.

        Raises:
            EmbeddingClientError: See `embedding_client.errors`.
        """
        return concatenate(list(self._in_order(self._flows.embed_all(texts, options))), options)

    def embed_one(self, text: str, **options: Unpack[EmbedOptions]) -> npt.NDArray[Any]:
        """Embed one text. Return its vector, an array of shape (dimensions,)."""
        vector: npt.NDArray[Any] = self.embed([text], **options)[0]
        return vector

    def iter_embed(
        self, texts: Iterable[str], **options: Unpack[EmbedOptions]
    ) -> Iterator[npt.NDArray[Any]]:
        """Embed a stream of texts. Yield arrays of shape (some, dimensions) in order.

        The client reads only as many texts ahead as it is embedding, so the stream may be endless.
        """
        return self._in_order(self._flows.split(self._flows.embed, texts, options))

    def iter_parts(
        self, texts: Iterable[str], **options: Unpack[EmbedOptions]
    ) -> Iterator[EmbeddedTexts]:
        """Embed a stream of texts, and continue after texts that the endpoint refuses.

        Yield the vectors and the errors of refused texts, in order. Errors that are not about one
        text, such as a missing permission, are raised.
        """
        return self._in_order(self._flows.split(self._flows.part, texts, options))

    def search(
        self,
        text: str,
        *,
        top: int = 10,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  (the API's name)
        mode: str | None = None,
        candidates: int | None = None,
        rerank: bool | None = None,
    ) -> list[Match]:
        """Search the endpoint's index. Return the matches, best first.

        With one of the last three, `POST /search` answers, which also fuses and reranks; without
        them `POST /similar`, whose scores are similarities.

        Args:
            text: The text to search for.
            top: The largest number of matches: up to 1000, or 10,000 with an index of S3 Vectors.
            filter: Which metadata a match must have, such as `{"year": {"$gte": 2020}}`. Only with
                an index of S3 Vectors.
            mode: `dense`, `sparse` or `hybrid`, the default if the endpoint has a sparse encoder.
            candidates: How many entries each search finds, to be fused and reranked. Default: 50.
            rerank: Whether a reranker orders the candidates; by default if there is one.

        Raises:
            RequestError: With status 404, if the endpoint has no index, or an empty one.
            ServiceError: If S3 Vectors does not answer.
        """
        options = {"mode": mode, "candidates": candidates, "rerank": rerank}
        return self._run(self._flows.search(text, top=top, where=filter, **options))

    def rerank(
        self,
        query: str,
        passages: Iterable[str],
        *,
        top_k: int | None = None,
        truncate: bool = True,
    ) -> list[Ranked]:
        """Rank passages for a query with a reranker. Return them, the best first.

        Args:
            query: The text to rank for.
            passages: The texts to rank: any iterable, of any length.
            top_k: The most passages to return; None returns all.
            truncate: Whether to cut the end of a passage that does not fit with the query. The
                query is never cut. False refuses such a passage.

        Raises:
            RequestError: With status 404, if the endpoint serves an embedding model. With
                `position`, if a passage is refused.
        """
        texts = check_rerank(query, passages, top_k)
        flows = self._flows.score(query, texts, truncate=truncate)
        return ranked(texts, list(self._in_order(flows)), top_k)

    def embed_sparse(
        self,
        texts: Iterable[str],
        *,
        prompt: str | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
        truncate: bool | None = None,
    ) -> list[SparseVector]:
        """Encode texts with a sparse encoder. Return a vector for each, in order.

        Args:
            texts: The texts to encode: any iterable, of any length.
            prompt: The name of one of the model's prompts.
            top_k: Keep this many weights of a vector, the largest ones; None keeps all.
            threshold: Keep the weights of a vector that are at least this; None keeps all.
            truncate: Whether to cut the end of a text over the model's limit. None takes the
                endpoint's default.

        Raises:
            RequestError: With status 400, if the endpoint serves another kind of model. With
                `position`, if a text is refused.
        """
        flows = self._flows.sparse(
            texts, prompt_name=prompt, top_k=top_k, threshold=threshold, truncate=truncate
        )
        return joined(self._in_order(flows))

    def classify(
        self, texts: Iterable[str], *, raw_scores: bool = False, truncate: bool | None = None
    ) -> list[Classified]:
        """Label texts with a classifier. Return the labels of each, in order.

        Args:
            texts: The texts to label: any iterable, of any length.
            raw_scores: Whether scores are the model's logits, without its activation.
            truncate: Whether to cut the end of a text over the model's limit. None takes the
                endpoint's default.

        Raises:
            RequestError: With status 404, if the endpoint serves another kind of model. With
                `position`, if a text is refused.
        """
        options = {"raw_scores": raw_scores or None, "truncate": truncate}
        return joined(self._in_order(self._flows.classify(texts, **options)))

    def similar(self, text: str, *, num_results: int = 10) -> list[Match]:
        """Search the endpoint's index without a filter. See `search`."""
        return self.search(text, top=num_results)

    def chunk(
        self,
        name: str,
        data: bytes,
        *,
        metadata: Iterable[str] = (),
        chunk_tokens: int | None = None,
        overlap_tokens: int | None = None,
    ) -> dict[str, Any]:
        """Divide a document into the chunks that `[ingest]` makes of it. Nothing is embedded.

        `scripts/serve` does that, on your own machine; a deployed endpoint does not.

        Args:
            name: The file's name, whose suffix decides the format: any that `[ingest]` reads.
            data: The file, up to 32 MB.
            metadata: The metadata keys that are wanted, of front matter and rows.
            chunk_tokens: The most tokens of a chunk; by default 256, or what the model takes.
            overlap_tokens: The most tokens that a chunk repeats of the one before it; by default
                32, or half of `chunk_tokens`.

        Returns:
            The `title`; `chunks`, each with `text`, `headings` (`A > B`, the outermost first), the
            number of `tokens` of its text, and the `metadata` that an index has of it; `problems`,
            sentences on what was left out; and the `counts` of `chunks`, of their `tokens`, of
            those `unknown` to the model, of blocks that were `cut`, and the tokens of the
            `longest` and the `shortest` chunk.

        Raises:
            RequestError: If `[ingest]` refuses the document (its code is `refused_document`), the
                model does not take such chunks, or the endpoint is not on this machine.
        """
        return self._run(
            self._flows.chunk(
                name,
                data,
                metadata=[*metadata],
                chunk_tokens=chunk_tokens,
                overlap_tokens=overlap_tokens,
            )
        )

    def info(self) -> dict[str, Any]:
        """Return the endpoint's description: model, limits, prompts, vector space."""
        return self._run(self._flows.get("/info"))

    def health(self) -> dict[str, Any]:
        """Return the endpoint's health. It responds once the model is loaded."""
        return self._run(self._flows.get("/health"))

    def close(self) -> None:
        """Close the connections and cancel requests that wait to be sent or retried."""
        self._closed.set()
        if self._process is not None:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self._http = self._given_http or httpx2.Client(**self._own_http)
        self._pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="embedding-client")
        self._closed = threading.Event()
        #: The process that has sent requests, in whose threads and connections they are.
        self._process: int | None = None

    def _check_process(self) -> None:
        """Refuse a forked process: its threads would not exist, and its connections be shared."""
        if self._process is None:
            process, http = os.getpid(), None if self._given_http else self._http
            # A finalizer, because the LangChain and LlamaIndex classes are never closed.
            self._release = weakref.finalize(self, _release, process, self._pool, http)
            # Last: another thread may close the client meanwhile.
            self._process = process
        elif self._process != os.getpid():
            raise ConfigurationError(
                "The client has sent requests in the process from which this one was forked; "
                "allowed: to make the client after the fork."
            )

    def _in_order(self, flows: Iterator[Flow[_T]]) -> Iterator[_T]:
        pending: deque[Future[_T]] = deque()

        def result() -> _T:
            self._check_process()
            return pending.popleft().result()

        try:
            for flow in flows:
                if self._closed.is_set():
                    raise self._closed_error()
                self._check_process()
                pending.append(self._pool.submit(self._run, flow))
                if len(pending) > self._concurrency:
                    yield result()
            while pending:
                yield result()
        finally:
            if self._process == os.getpid():
                for future in pending:
                    future.cancel()

    def _run(self, flow: Flow[_T]) -> _T:
        step: Callable[[], EndpointRequest] = partial(next, flow)
        while True:
            try:
                request = step()
            except StopIteration as end:
                result: _T = end.value
                return result
            if self._closed.wait(request.delay):
                raise self._closed_error()
            try:
                self._check_process()
                response = self._http.request(**self._http_request(request))
            except TRANSPORT_ERRORS as error:
                step = partial(flow.throw, error)
            else:
                step = partial(flow.send, response)
                stream = response.extensions.get("network_stream")
                if stream and self._closed.is_set() and self._given_http is None:
                    # The client was closed before this connection was made: nothing else ends it.
                    stream.close()

    def _closed_error(self) -> UnreachableError:
        return UnreachableError(f"The client for {self._flows.target.name} is closed.")


def _release(process: int, pool: ThreadPoolExecutor, http: httpx2.Client | None) -> None:
    if process == os.getpid():
        pool.shutdown(wait=False, cancel_futures=True)
        if http is not None:
            http.close()
