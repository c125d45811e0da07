"""The flows of API calls, without any I/O."""

import httpx
import pytest

from embedding_client import BatchLimits
from embedding_client.flows import EmbeddingFlows
from embedding_client.targets import UrlTarget
from tests.embedding_client.answers import NO_WAIT, URL


def test_a_retry_is_the_same_request_with_a_delay() -> None:
    """`Retry-After` sets the delay. After a transport error, the policy alone sets it."""
    limits = BatchLimits()
    target = UrlTarget(URL)
    flow = EmbeddingFlows(target, vector_space=None, limits=limits, retries=NO_WAIT).get("/info")
    first = next(flow)
    second = flow.send(httpx.Response(503, headers={"retry-after": "7"}))
    third = flow.throw(httpx.ReadTimeout("slow"))
    assert (first.method, first.url, first.content) == ("GET", URL + "/info", None)
    assert [request.delay for request in (first, second, third)] == [0, 7, 0]
    assert (first.url, first.method) == (second.url, second.method) == (third.url, third.method)
    with pytest.raises(StopIteration) as end:
        flow.send(httpx.Response(200, json={"status": "ok"}))
    assert end.value.value == {"status": "ok"}
