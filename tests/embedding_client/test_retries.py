"""How long a client waits."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from embedding_client import RetryPolicy


def test_waits_are_random_under_a_growing_ceiling():
    """Full jitter: anything from nothing to a ceiling that doubles, up to the longest."""
    policy = RetryPolicy(attempts=50, base=1, ceiling=8)
    for attempt, ceiling in [(1, 1), (2, 2), (3, 4), (4, 8), (40, 8)]:
        waits = [policy.wait(attempt) for _ in range(300)]
        assert min(waits) < 0.2 * ceiling
        assert 0.8 * ceiling < max(waits) <= ceiling


def test_the_last_attempt_is_the_last():
    """After it there is nothing to wait for."""
    assert RetryPolicy(attempts=3).wait(2) is not None
    assert RetryPolicy(attempts=3).wait(3) is None


def test_retry_after_is_waited_for():
    """Seconds and dates, as the standard has them."""
    policy = RetryPolicy(base=0)
    assert policy.wait(1, {"retry-after": "7"}) == 7
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 28 < policy.wait(1, {"retry-after": moment}) <= 30


@pytest.mark.parametrize("value", ["", "soon", "-5", "Mon, 99 Foo 2020"])
def test_a_retry_after_that_is_none_is_ignored(value):
    """What cannot be read asks for nothing."""
    assert RetryPolicy(base=0).wait(1, {"retry-after": value}) == 0


def test_a_wait_beyond_reason_is_given_up():
    """An endpoint that asks for an hour gets no second request."""
    assert RetryPolicy().wait(1, {"retry-after": "3600"}) is None


def test_statuses_that_may_pass_are_tried_again():
    """429 and the 5xx of a service that is starting or overloaded; not 4xx, not 501."""
    policy = RetryPolicy()
    assert [status for status in range(400, 600) if policy.retries(status)] == [
        429,
        500,
        502,
        503,
        504,
    ]


def test_the_defaults_are_patient_but_not_forever():
    """Six attempts; waits of at most 0.25 s, 0.5 s … 4 s; `Retry-After` up to two minutes."""
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
    """However many attempts are asked for."""
    waits = [RetryPolicy(attempts=100).wait(50) for _ in range(300)]
    assert 16 < max(waits) <= 20


def test_a_moment_that_has_passed_is_not_waited_for():
    """A date in the past asks for nothing."""
    moment = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    assert RetryPolicy(base=0).wait(1, {"retry-after": moment}) == 0
