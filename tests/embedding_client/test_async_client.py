"""The asynchronous client, on asyncio and on trio."""

import anyio
import httpx
import numpy as np
import pytest

from embedding_client import (
    AsyncEmbeddingClient,
    BatchLimits,
    EmbeddingClient,
    RequestError,
    RetryPolicy,
    ServiceError,
    ThrottledError,
    UnreachableError,
)
from tests.embedding_client.answers import URL

TEXTS = [f"text number {number}" for number in range(30)]


@pytest.fixture(params=["asyncio", "trio"])
def run(request):
    return lambda main: anyio.run(main, backend=request.param)


def failing(error):
    """Return an HTTP client that always responds, or fails, in the same way."""

    def answer(request):
        if isinstance(error, Exception):
            raise error
        return error

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


def test_it_returns_the_vectors_of_the_blocking_client(running, run):
    """Concurrent requests return the same vectors in the same order."""

    async def main():
        limits = BatchLimits(texts=4)
        async with AsyncEmbeddingClient(running.url, limits=limits, concurrency=3) as client:
            whole = await client.embed(TEXTS)
            parts = [part async for part in client.iter_embed(iter(TEXTS))]
            one = await client.embed_one(TEXTS[3])
            health = await client.health()
            info = await client.info()
            assert client.vector_space.endswith(f"/{running.dimensions}")
            assert (await client.embed([], dimensions=3)).shape == (0, 3)  # nothing is sent
            return whole, np.concatenate(parts), one, health, info

    whole, parts, one, health, info = run(main)
    with EmbeddingClient(running.url) as client:
        expected = client.embed(TEXTS)
        assert (health, info) == (client.health(), client.info())
    assert np.allclose(whole, expected, atol=1e-4)
    assert np.allclose(parts, expected, atol=1e-4)
    assert np.allclose(one, expected[3], atol=1e-4)
    assert health["status"] == "ok"
    assert info["dimensions"] == [running.dimensions]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(429, json={"message": "Rate Exceeded."}), ThrottledError),
        (httpx.Response(400, json={"error": "no", "code": "invalid_field"}), RequestError),
        (httpx.ConnectError("refused"), UnreachableError),
        (httpx.Response(302, headers={"location": "https://x/"}), ServiceError),
        (httpx.Response(413, json={"message": "too large"}), RequestError),
    ],
)
def test_one_error_is_raised_not_a_group(run, answer, error):
    """The first error of many requests is raised by itself."""

    async def main():
        client = AsyncEmbeddingClient(
            URL,
            auth=httpx.Auth(),
            http_client=failing(answer),
            retries=RetryPolicy(base=0, attempts=2),
            limits=BatchLimits(texts=1),
        )
        with pytest.raises(error):
            await client.embed(TEXTS)

    run(main)
