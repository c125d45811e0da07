"""Streams of texts behave the same in the blocking and the asynchronous client."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any

import anyio
import httpx2
import pytest

from embedding_client import (
    AsyncEmbeddingClient,
    BatchLimits,
    ConfigurationError,
    EmbeddingClient,
    ForbiddenError,
)
from tests.embedding_client.answers import NO_WAIT, URL, embedded, refused, texts_of
from tests.fixtures.waiting import PATIENCE

BACKENDS = ["asyncio", "trio"]

Handler = Callable[[httpx2.Request], Any]
Outcome = tuple[list[Any], Exception | None]


def arguments(texts_per_request: int, concurrency: int) -> dict[str, Any]:
    return {
        "auth": httpx2.Auth(),
        "retries": NO_WAIT,
        "limits": BatchLimits(texts=texts_per_request),
        "concurrency": concurrency,
    }


@pytest.fixture(params=["blocking", *BACKENDS])
def consume(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    """Consume a stream. Return the items before its end, and the error that ended it."""

    def blocking(method: str, texts: Iterable[str], handler: Handler, **named: Any) -> Outcome:
        items: list[Any] = []
        http = httpx2.Client(transport=httpx2.MockTransport(handler))
        with EmbeddingClient(URL, http_client=http, **named) as client:
            try:
                items.extend(getattr(client, method)(texts))
            except Exception as error:
                return items, error
        return items, None

    def asynchronous(method: str, texts: Iterable[str], handler: Handler, **named: Any) -> Outcome:
        async def main() -> Outcome:
            items: list[Any] = []
            http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
            async with AsyncEmbeddingClient(URL, http_client=http, **named) as client:
                try:
                    async for item in getattr(client, method)(texts):
                        items.append(item)  # noqa: PERF401  (kept if the stream fails)
                except Exception as error:
                    return items, error
            return items, None

        return anyio.run(main, backend=request.param)

    return blocking if request.param == "blocking" else asynchronous


@pytest.mark.parametrize("concurrency", [1, 3, 10])
def test_a_failing_input_loses_no_complete_batch(consume, concurrency):
    """The vectors of all complete batches arrive before the error of the input."""

    def texts() -> Iterator[str]:
        yield from ["a", "bb", "ccc", "dddd", "eeeee"]
        raise OSError("the disk is gone")

    items, error = consume("iter_embed", texts(), embedded, **arguments(2, concurrency))
    assert [item[:, 0].tolist() for item in items] == [[1, 2], [3, 4]]
    assert isinstance(error, OSError)


def test_a_failing_request_loses_no_vectors_before_it(consume):
    """The vectors of the batches before it arrive first."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(403, json={}) if "ccc" in texts_of(request) else embedded(request)

    items, error = consume("iter_embed", ["a", "bb", "ccc", "d"], handler, **arguments(1, 4))
    assert [item[:, 0].tolist() for item in items] == [[1], [2]]
    assert isinstance(error, ForbiddenError)


def test_refused_texts_do_not_end_a_stream_of_parts(consume):
    """Each part has the vectors, and the errors of the refused texts by position."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        for position, text in enumerate(texts_of(request)):
            if len(text) > 3:
                return refused(400, "input_too_long", f'"texts[{position}]" is too long')
        return embedded(request)

    items, error = consume("iter_parts", ["a", "long", "cc", "longer"], handler, **arguments(2, 2))
    assert error is None
    assert [(item.count, item.vectors[:, 0].tolist()) for item in items] == [(2, [1]), (2, [2])]
    assert [refused.position for item in items for refused in item.refused.values()] == [1, 3]


def test_only_as_many_texts_are_read_as_are_embedded(consume):
    """The client never reads more than `concurrency` batches ahead of the items it returned."""
    read: list[int] = []
    sent: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(40):
            read.append(number)
            yield "a"

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(len(read))
        return embedded(request)

    items, error = consume("iter_embed", texts(), handler, **arguments(1, 2))
    assert (len(items), error) == (40, None)
    # At request n, n + 1 batches have begun, two more may wait, and the next text is being read.
    assert all(ahead <= number + 5 for number, ahead in enumerate(sent))


def test_a_slow_request_does_not_hold_up_later_ones():
    """The first of two concurrent requests is answered after the third was sent."""
    third = threading.Event()

    def handler(request: httpx2.Request) -> httpx2.Response:
        (text,) = texts_of(request)
        if text == "a":
            assert third.wait(PATIENCE)
        if text == "ccc":
            third.set()
        return embedded(request)

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    with EmbeddingClient(URL, http_client=http, **arguments(1, 2)) as client:
        items = list(client.iter_embed(iter(["a", "bb", "ccc", "dddd"])))
    assert [item[0, 0] for item in items] == [1, 2, 3, 4]


def connected(handler: Handler, concurrency: int) -> AsyncEmbeddingClient:
    """Return an asynchronous client that sends a text a request to a function."""
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    return AsyncEmbeddingClient(URL, http_client=http, **arguments(1, concurrency))


@pytest.mark.anyio
async def test_a_slow_request_does_not_hold_up_later_ones_asynchronously():
    """The first of two concurrent requests is answered after the third was sent."""
    third = anyio.Event()

    async def handler(request: httpx2.Request) -> httpx2.Response:
        (text,) = texts_of(request)
        if text == "a":
            with anyio.fail_after(PATIENCE):
                await third.wait()
        if text == "ccc":
            third.set()
        return embedded(request)

    async with connected(handler, 2) as client:
        stream = client.iter_embed(iter(["a", "bb", "ccc", "dddd"]))
        assert [float(item[0, 0]) async for item in stream] == [1, 2, 3, 4]


@pytest.mark.anyio
async def test_an_abandoned_stream_ends_with_its_client():
    """Requests of a stream that is not read to its end are canceled, not waited for."""

    async def handler(request: httpx2.Request) -> httpx2.Response:
        if texts_of(request) != ["a"]:
            await anyio.sleep_forever()
        return embedded(request)

    async with connected(handler, 2) as client:
        stream = client.iter_embed(iter(["a", "bb", "ccc", "dddd"]))
        assert (await anext(stream))[0, 0] == 1
    await stream.aclose()


@pytest.mark.anyio
async def test_a_closed_stream_cancels_its_requests():
    """The client can be used afterwards."""
    started, canceled = anyio.Event(), anyio.Event()

    async def handler(request: httpx2.Request) -> httpx2.Response:
        if texts_of(request) == ["bb"]:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                canceled.set()
        return embedded(request)

    async with connected(handler, 1) as client:
        with anyio.fail_after(PATIENCE):
            async with aclosing(client.iter_embed(iter(["a", "bb", "ccc"]))) as stream:
                assert (await anext(stream))[0, 0] == 1
                await started.wait()
            await canceled.wait()
        assert (await client.embed(["dddd"]))[0, 0] == 4


@pytest.mark.anyio
async def test_an_error_inside_the_context_is_raised_unchanged():
    """Not as a group of errors."""
    with pytest.raises(KeyError, match="mine"):
        async with AsyncEmbeddingClient(URL, auth=httpx2.Auth()):
            raise KeyError("mine")


@pytest.mark.parametrize("method", ["iter_embed", "iter_parts"])
def test_an_asynchronous_stream_needs_the_context(method):
    """The message shows the `async with` statement."""
    client = AsyncEmbeddingClient(URL, auth=httpx2.Auth())
    with pytest.raises(ConfigurationError, match="async with AsyncEmbeddingClient"):
        getattr(client, method)(["a"])
    anyio.run(client.aclose)
