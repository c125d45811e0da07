"""The flows of API calls, without any I/O, and the delays between attempts."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from embedding_client import BatchLimits, RetryPolicy
from embedding_client._flows import EmbeddingFlows
from embedding_client._targets import UrlTarget
from tests.embedding_client.answers import NO_WAIT, URL


def test_a_retry_is_the_same_request_with_a_delay():
    """`Retry-After` sets the delay. After a transport error, the policy alone sets it."""
    limits = BatchLimits()
    target = UrlTarget(URL)
    flow = EmbeddingFlows(target, vector_space=None, limits=limits, retries=NO_WAIT).get("/info")
    first = next(flow)
    second = flow.send(httpx2.Response(503, headers={"retry-after": "7"}))
    third = flow.throw(httpx2.ReadTimeout("slow"))
    assert (first.method, first.url, first.content) == ("GET", URL + "/info", None)
    assert [request.delay for request in (first, second, third)] == [0, 7, 0]
    assert (first.url, first.method) == (second.url, second.method) == (third.url, third.method)
    with pytest.raises(StopIteration) as end:
        flow.send(httpx2.Response(200, json={"status": "ok"}))
    assert end.value.value == {"status": "ok"}


@pytest.mark.parametrize(
    ("policy", "ceilings"),
    [
        (RetryPolicy(attempts=50, base=1, ceiling=8), {1: 1, 2: 2, 3: 4, 4: 8, 40: 8}),
        (RetryPolicy(attempts=100), {1: 0.25, 2: 0.5, 5: 4, 50: 20}),
    ],
)
def test_delays_are_random_below_a_growing_ceiling(policy, ceilings):
    """Full jitter: from zero to a ceiling that doubles up to its maximum."""
    for attempt, ceiling in ceilings.items():
        waits = [policy.wait(attempt) for _ in range(300)]
        assert min(waits) < 0.2 * ceiling
        assert 0.8 * ceiling < max(waits) <= ceiling


def test_retry_after_is_honored():
    """The header holds seconds or a date. After more than two minutes the client gives up."""
    policy = RetryPolicy(base=0)
    assert policy.wait(1, {"retry-after": "7"}) == 7
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 20 < policy.wait(1, {"retry-after": date}) <= 100
    # The time zone that RFC 5322 calls unknown is UTC.
    assert 20 < policy.wait(1, {"retry-after": date.replace("GMT", "-0000")}) <= 100
    assert policy.wait(1, {"retry-after": "120"}) == 120
    assert policy.wait(1, {"retry-after": "121"}) is None


@pytest.mark.parametrize(
    "value", ["", "soon", "-5", "Mon, 99 Foo 2020", "Wed, 01 Jan 2020 00:00:00 GMT"]
)
def test_an_invalid_or_past_retry_after_is_ignored(value):
    """The delay is then only the jitter."""
    assert RetryPolicy(base=0).wait(1, {"retry-after": value}) == 0


def test_temporary_statuses_are_retried():
    """They are 429 and the 5xx of a service that is starting or overloaded, without 501."""
    retried = [status for status in range(400, 600) if RetryPolicy().retries(status)]
    assert retried == [429, 500, 502, 503, 504]
