"""The flows of API calls, without any I/O."""

import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest

from embedding_client import BatchLimits, RequestError, RetryPolicy, UnreachableError
from embedding_client.batches import Batch
from embedding_client.flows import EmbeddingFlows, Flow, Request

URL = "https://abc.lambda-url.eu-west-1.on.aws"


def flows(**retries: Any) -> EmbeddingFlows:
    return EmbeddingFlows(
        URL + "/",
        vector_space=None,
        limits=BatchLimits(texts=4),
        retries=RetryPolicy(**{"base": 0, **retries}),
    )


def embedded(request: Request) -> httpx.Response:
    assert request.content is not None
    texts = json.loads(request.content)["texts"]
    rows = [base64.b64encode(np.full(2, len(text), "<f4").tobytes()).decode() for text in texts]
    return httpx.Response(200, json={"embeddings": rows, "vector_space": "m@1/int8/x/2"})


def finish(flow: Flow[Any], response: httpx.Response) -> Any:
    """Send the last response of a flow and return its result."""
    with pytest.raises(StopIteration) as end:
        flow.send(response)
    return end.value.value


def test_a_flow_yields_a_request_and_returns_the_result() -> None:
    """The request has everything that a client needs to send it."""
    flow = flows().embed(Batch(start=0, texts=["a", "bb"]), {})
    request = next(flow)
    assert (request.method, request.url, request.delay) == ("POST", URL + "/", 0)
    assert request.headers == {"content-type": "application/json"}
    assert finish(flow, embedded(request)).tolist() == [[1, 1], [2, 2]]


def test_a_retry_is_the_same_request_with_a_delay() -> None:
    """`Retry-After` sets the delay of the next request."""
    flow = flows().get("/health")
    first = next(flow)
    second = flow.send(httpx.Response(503, headers={"retry-after": "7"}))
    assert (first.delay, second.delay) == (0, 7)
    assert (first.url, first.method) == (second.url, second.method)
    third = flow.throw(httpx.ReadTimeout("slow"))
    assert finish(flow, httpx.Response(200, json={"status": "ok"})) == {"status": "ok"}
    assert third.delay == 0


def test_a_flow_gives_up_after_the_last_attempt() -> None:
    """The last transport error is the cause."""
    flow = flows(attempts=2).get("/health")
    next(flow)
    flow.throw(httpx.ConnectError("refused"))
    with pytest.raises(UnreachableError, match="did not respond in 2 attempts: refused") as caught:
        flow.throw(httpx.ConnectError("refused"))
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


def test_a_rejected_batch_is_sent_in_halves() -> None:
    """One after the other, and the vectors are in order."""
    flow = flows().embed(Batch(start=0, texts=["a", "bb", "ccc"]), {})
    next(flow)
    first = flow.send(httpx.Response(413, json={"code": "batch_too_large"}))
    second = flow.send(embedded(first))
    texts = [json.loads(request.content or b"")["texts"] for request in (first, second)]
    assert texts == [["a"], ["bb", "ccc"]]
    assert finish(flow, embedded(second))[:, 0].tolist() == [1, 2, 3]


def test_a_part_is_sent_again_without_its_refused_texts() -> None:
    """The error of the refused text is in the result."""
    flow = flows().part(Batch(start=10, texts=["a", "bad", "cc"]), {})
    next(flow)
    refusal = {"error": '"texts[1]" has 9 tokens', "code": "input_too_long"}
    request = flow.send(httpx.Response(400, json=refusal))
    part = finish(flow, embedded(request))
    assert (part.count, part.vectors[:, 0].tolist()) == (3, [1, 2])
    assert isinstance(part.refused[1], RequestError)
    assert part.refused[1].position == 11


def test_an_error_of_the_input_is_raised_by_the_last_flow() -> None:
    """The flows of the complete batches before it come first."""

    def texts() -> Any:
        yield from "abcdefghi"
        raise OSError("the disk is gone")

    made = flows()
    *before, last = made.split(made.embed, texts(), {})
    assert [len(json.loads(next(flow).content or b"")["texts"]) for flow in before] == [4, 4]
    with pytest.raises(OSError, match="the disk is gone"):
        next(last)
