"""Requests and tokens per minute of each caller."""

import pytest

from embedder.core.errors import RateLimitedError
from embedder.server.exchange import Caller
from embedder.server.limits import Limits, format_reset
from tests.embedder.server.clock import Clock

SEARCH = Caller("search", requests_per_minute=60, tokens_per_minute=6000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> Limits:
    return Limits(clock)


def test_headers_are_openais(limits: Limits, clock: Clock) -> None:
    """They have what is left of each limit, and the time until nothing of it is used."""
    assert limits.admit(SEARCH, tokens=60) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "5940",
        "x-ratelimit-reset-tokens": "600ms",
    }
    clock.now += 0.5
    headers = limits.settle(SEARCH, estimated=60, tokens=1560)
    assert headers["x-ratelimit-reset-requests"] == "500ms"
    assert headers["x-ratelimit-remaining-tokens"] == "4490"
    assert headers["x-ratelimit-reset-tokens"] == "15.1s"


def test_a_caller_without_limits_has_no_headers(limits: Limits) -> None:
    """Nothing is counted for it."""
    assert limits.admit(Caller("indexer"), tokens=10**9) == {}
    assert limits.settle(Caller("indexer"), estimated=10**9, tokens=10**9) == {}
    only_requests = limits.admit(Caller("other", requests_per_minute=5), tokens=10**9)
    assert only_requests["x-ratelimit-remaining-requests"] == "4"
    assert "x-ratelimit-limit-tokens" not in only_requests


def test_requests_over_the_limit_are_refused(limits: Limits, clock: Clock) -> None:
    """The response says when the next one is let in, and then one is."""
    for _ in range(60):
        limits.admit(SEARCH, tokens=1)
    with pytest.raises(RateLimitedError) as error:
        limits.admit(SEARCH, tokens=1)
    assert error.value.message == (
        'The key "search" has used up its 60 requests per minute. Try again in 1s.'
    )
    assert error.value.headers["retry-after"] == "1"
    assert error.value.headers["x-ratelimit-remaining-requests"] == "0"
    assert error.value.headers["x-ratelimit-reset-requests"] == "1m0s"
    clock.now += int(error.value.headers["retry-after"])
    limits.admit(SEARCH, tokens=1)
    with pytest.raises(RateLimitedError):
        limits.admit(SEARCH, tokens=1)


def test_tokens_over_the_limit_are_paid_back(limits: Limits, clock: Clock) -> None:
    """A request that turns out larger is answered, and the next one waits until it is paid."""
    limits.admit(SEARCH, tokens=100)
    limits.settle(SEARCH, estimated=100, tokens=9000)
    with pytest.raises(RateLimitedError, match="used up its 6000 tokens per minute") as error:
        limits.admit(SEARCH, tokens=1)
    assert error.value.headers["retry-after"] == "31"
    assert error.value.headers["x-ratelimit-remaining-tokens"] == "0"
    assert error.value.headers["x-ratelimit-reset-tokens"] == "1m30s"
    clock.now += 31
    limits.admit(SEARCH, tokens=1)


def test_tokens_under_way_count(limits: Limits) -> None:
    """Requests at the same time cannot each use the whole limit."""
    limits.admit(SEARCH, tokens=5000)
    limits.admit(SEARCH, tokens=5000)
    with pytest.raises(RateLimitedError):
        limits.admit(SEARCH, tokens=5000)
    limits.settle(SEARCH, estimated=5000, tokens=0)
    limits.admit(SEARCH, tokens=5000)


def test_an_estimate_takes_no_more_than_a_minutes_amount(limits: Limits) -> None:
    """A body that is large and has few tokens gives back all that was taken for it."""
    limits.admit(SEARCH, tokens=10**9)
    headers = limits.settle(SEARCH, estimated=10**9, tokens=10)
    assert headers["x-ratelimit-remaining-tokens"] == "5990"


def test_both_limits_can_be_used_up(limits: Limits) -> None:
    """The error names both, and waits for the later one."""
    caller = Caller("tiny", requests_per_minute=1, tokens_per_minute=1)
    limits.admit(caller, tokens=1)
    with pytest.raises(RateLimitedError, match="1 requests and 1 tokens per minute") as error:
        limits.admit(caller, tokens=1)
    assert error.value.headers["retry-after"] == "60"


def test_callers_do_not_share_a_limit(limits: Limits) -> None:
    """One that used its own up takes nothing from another."""
    for _ in range(60):
        limits.admit(SEARCH, tokens=1)
    limits.admit(SEARCH._replace(name="indexer"), tokens=1)


def test_a_changed_limit_is_in_force_at_once(limits: Limits) -> None:
    """A caller whose limit is raised in the keys' file need not wait for the old one."""
    for _ in range(60):
        limits.admit(SEARCH, tokens=1)
    headers = limits.admit(SEARCH._replace(requests_per_minute=120), tokens=1)
    assert headers["x-ratelimit-remaining-requests"] == "119"


def test_no_more_is_saved_up_than_a_minutes_amount(limits: Limits, clock: Clock) -> None:
    """An hour without requests allows no burst of an hour's amount."""
    limits.admit(SEARCH, tokens=1)
    clock.now += 3600
    assert limits.admit(SEARCH, tokens=1)["x-ratelimit-remaining-requests"] == "59"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0001, "1ms"),
        (0.012, "12ms"),
        (1, "1s"),
        (8.64, "8.64s"),
        (60, "1m0s"),
        (360, "6m0s"),
        (3661.5, "1h1m1.5s"),
    ],
)
def test_durations_are_written_as_openai_does(seconds: float, text: str) -> None:
    """That is the format of Go's `time.Duration`."""
    assert format_reset(seconds) == text
