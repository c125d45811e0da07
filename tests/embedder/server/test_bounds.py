"""When a request is refused because too much waits."""

import pytest

from embedder.errors import OverloadedError
from embedder.server.bounds import Bounds


def test_what_fits_is_admitted() -> None:
    """Tokens that wait and those of the request fit together up to the bound."""
    Bounds(100, 10.0).check(60, 40, None)
    with pytest.raises(OverloadedError, match=r"60 tokens wait for the model, and at most 100 may"):
        Bounds(100, 10.0).check(60, 41, None)


def test_a_request_larger_than_the_bound_is_admitted_into_a_half_empty_queue() -> None:
    """Otherwise a large list would wait for a moment in which nothing waits."""
    Bounds(100, 10.0).check(50, 5000, None)
    with pytest.raises(OverloadedError):
        Bounds(100, 10.0).check(51, 5000, None)


def test_any_request_is_admitted_into_an_empty_queue() -> None:
    """However slow the model is measured to be, one request may wait for it."""
    Bounds(100, 10.0).check(0, 5000, 60.0)


def test_the_seconds_bound_the_tokens_once_the_pace_is_known() -> None:
    """At 0.5 s a token, 10 seconds are 20 tokens."""
    bounds = Bounds(100, 10.0)
    bounds.check(10, 10, 0.5)
    with pytest.raises(OverloadedError, match="at most 20 may"):
        bounds.check(11, 10, 0.5)


@pytest.mark.parametrize(
    ("waiting", "pace", "seconds"),
    [(80, 0.05, "4"), (81, 0.05, "5"), (80, 0.001, "1"), (90, None, "1")],
)
def test_retry_after_is_the_time_of_what_waits(
    waiting: int, pace: float | None, seconds: str
) -> None:
    """It is in whole seconds, rounded up, and 1 where the pace is not known."""
    with pytest.raises(OverloadedError) as caught:
        Bounds(100, 10.0).check(waiting, 50, pace)
    assert caught.value.headers == {"retry-after": seconds}
    assert caught.value.message.endswith(f"again in {seconds} s.")
