"""The asynchronous client, on asyncio and on trio."""

import httpx2
import numpy as np
import pytest

from embedding_client import (
    AsyncEmbeddingClient,
    BatchLimits,
    RequestError,
    RetryPolicy,
    ServiceError,
    ThrottledError,
    UnreachableError,
)
from tests.embedding_client.answers import URL

pytestmark = pytest.mark.anyio
TEXTS = [f"text number {number}" for number in range(30)]


async def test_it_returns_the_vectors_of_the_blocking_client(running, client):
    """Concurrent requests return the same vectors in the same order."""
    expected = client.embed(TEXTS)
    limits = BatchLimits(texts=4)
    async with AsyncEmbeddingClient(running.url, limits=limits, concurrency=3) as other:
        assert np.allclose(await other.embed(TEXTS), expected, atol=1e-4)
        parts = [part async for part in other.iter_embed(iter(TEXTS))]
        assert np.allclose(np.concatenate(parts), expected, atol=1e-4)
        assert np.allclose(await other.embed_one(TEXTS[3]), expected[3], atol=1e-4)
        assert (await other.embed([], dimensions=3)).shape == (0, 3)  # nothing is sent
        assert other.vector_space.endswith(f"/{running.dimensions}")
        health, info = await other.health(), await other.info()
    assert (health, info) == (client.health(), client.info())
    assert (health["status"], info["dimensions"]) == ("ok", [running.dimensions])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx2.Response(429, json={"message": "Rate Exceeded."}), ThrottledError),
        (httpx2.Response(400, json={"error": "no", "code": "invalid_field"}), RequestError),
        (httpx2.ConnectError("refused"), UnreachableError),
        (httpx2.Response(302, headers={"location": "https://x/"}), ServiceError),
        (httpx2.Response(413, json={"message": "too large"}), RequestError),
    ],
)
async def test_one_error_is_raised_not_a_group(answer, error):
    """The first error of many requests is raised by itself."""

    def always(_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = AsyncEmbeddingClient(
        URL,
        auth=httpx2.Auth(),
        http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(always)),
        retries=RetryPolicy(base=0, attempts=2),
        limits=BatchLimits(texts=1),
    )
    with pytest.raises(error):
        await client.embed(TEXTS)
