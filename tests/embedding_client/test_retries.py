"""The delays between attempts."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from embedding_client import RetryPolicy


def test_delays_are_random_below_a_growing_ceiling():
    """Full jitter: from zero to a ceiling that doubles up to its maximum."""
    policy = RetryPolicy(attempts=50, base=1, ceiling=8)
    for attempt, ceiling in [(1, 1), (2, 2), (3, 4), (4, 8), (40, 8)]:
        waits = [policy.wait(attempt) for _ in range(300)]
        assert min(waits) < 0.2 * ceiling
        assert 0.8 * ceiling < max(waits) <= ceiling


def test_attempts_are_limited():
    """There is no delay after the last attempt."""
    assert RetryPolicy(attempts=3).wait(2) is not None
    assert RetryPolicy(attempts=3).wait(3) is None


def test_retry_after_is_honored():
    """The header holds seconds or a date."""
    policy = RetryPolicy(base=0)
    assert policy.wait(1, {"retry-after": "7"}) == 7
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 28 < policy.wait(1, {"retry-after": moment}) <= 30


@pytest.mark.parametrize("value", ["", "soon", "-5", "Mon, 99 Foo 2020"])
def test_an_invalid_retry_after_is_ignored(value):
    """The delay is then only the jitter."""
    assert RetryPolicy(base=0).wait(1, {"retry-after": value}) == 0


def test_a_long_retry_after_ends_the_attempts():
    """The client does not wait for an hour."""
    assert RetryPolicy().wait(1, {"retry-after": "3600"}) is None


def test_temporary_statuses_are_retried():
    """They are 429 and the 5xx of a service that is starting or overloaded, without 501."""
    policy = RetryPolicy()
    assert [status for status in range(400, 600) if policy.retries(status)] == [
        429,
        500,
        502,
        503,
        504,
    ]


def test_the_defaults_limit_attempts_and_delays():
    """Six attempts; delays of at most 0.25 s, 0.5 s, …, 4 s; `Retry-After` up to two minutes."""
    policy = RetryPolicy()
    assert policy.wait(5) is not None
    assert policy.wait(6) is None
    for attempt, ceiling in [(1, 0.25), (2, 0.5), (5, 4.0)]:
        waits = [policy.wait(attempt) for _ in range(300)]
        assert min(waits) >= 0
        assert 0.8 * ceiling < max(waits) <= ceiling
    assert 120 <= policy.wait(1, {"retry-after": "120"}) <= 120.25
    assert policy.wait(1, {"retry-after": "121"}) is None


def test_the_default_ceiling_is_twenty_seconds():
    """For any number of attempts."""
    waits = [RetryPolicy(attempts=100).wait(50) for _ in range(300)]
    assert 16 < max(waits) <= 20


def test_a_retry_after_in_the_past_is_ignored():
    """The delay is then only the jitter."""
    moment = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    assert RetryPolicy(base=0).wait(1, {"retry-after": moment}) == 0
