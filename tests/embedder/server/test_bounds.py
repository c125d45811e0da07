"""When a request is refused because too much waits."""

import pytest

from embedder.core.errors import OverloadedError
from embedder.server.queue import Bounds, ThroughputEstimator
from embedder.server.waiting_runs import Shares


def shares(**held: int) -> Shares:
    made = Shares("tokens")
    for caller, amount in held.items():
        made.take(caller, amount)
    return made


@pytest.mark.parametrize(
    ("held", "more", "bound", "admitted"),
    [
        (60, 40, 100, True),
        (60, 41, 100, False),
        # Otherwise a large list would wait for a moment in which nothing waits.
        (50, 5000, 100, True),
        (51, 5000, 100, False),
        (0, 5000, 0, True),
        (1, 1, 1, False),
    ],
)
def test_what_fits_or_is_larger_than_a_half_empty_queue_is_admitted(held, more, bound, admitted):
    """A caller that holds nothing always is, however much others hold."""
    made = shares(a=held, b=5000 if held == 0 else 0)
    if admitted:
        made.check("a", more, bound)
        return
    message = f"it has {held} tokens of this caller, and at most {bound}"
    with pytest.raises(OverloadedError, match=message):
        made.check("a", more, bound)


def test_a_caller_may_take_what_is_free_and_always_its_equal_part():
    """One that has taken all of a bound leaves the others their parts."""
    full = shares(a=78, b=21, c=1)
    full.check("b", 12, 100)
    for caller, more in (("b", 13), ("a", 1)):
        with pytest.raises(OverloadedError, match="at most 33 are allowed now"):
            full.check(caller, more, 100)
    full.take("b", -20)
    full.check("a", 20, 100)


def test_what_is_given_back_is_free():
    """A caller that holds nothing any more counts no more."""
    held = shares(a=60, b=10)
    held.take("b", -10)
    held.check("a", 40, 100)
    assert held.total == 60


def test_the_seconds_bound_the_tokens_once_the_pace_is_known():
    """At 0.5 s a token, 10 seconds are 20 tokens."""
    assert [Bounds(100, 10.0).most(pace) for pace in (None, 0.5, 0.001)] == [100, 20, 100]


@pytest.mark.parametrize(
    ("held", "pace", "seconds"),
    [
        ({"a": 80}, 0.05, "4"),
        ({"a": 81}, 0.05, "5"),
        ({"a": 80}, 0.001, "1"),
        ({"a": 90}, 0.0, "1"),
        ({"a": 60, "b": 20}, 0.05, "4"),
        ({"a": 30, "b": 50, "c": 20}, 0.05, "5"),
    ],
)
def test_retry_after_is_the_time_of_the_callers_own_work(held, pace, seconds):
    """Its part of the model is equal to the others'. It is in whole seconds, 1 at least."""
    with pytest.raises(OverloadedError) as caught:
        shares(**held).check("a", 50, 50, seconds_each=pace)
    assert caught.value.headers == {"retry-after": seconds}
    assert caught.value.message.endswith(f"again in {seconds} s.")


def test_the_pace_is_the_mean_of_the_last_tokens():
    """The first runs also read the weights: few tokens say nothing, and a change is followed."""
    throughput = ThroughputEstimator()
    throughput.add(8, 5.0)
    assert throughput.seconds_per_token is None
    for _ in range(2000):
        throughput.add(256, 0.512)
    assert throughput.seconds_per_token == pytest.approx(0.002, rel=0.01)
    for _ in range(2000):
        throughput.add(256, 0.0256)
    assert throughput.seconds_per_token == pytest.approx(0.0001, rel=0.01)
