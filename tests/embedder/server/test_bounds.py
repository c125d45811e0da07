"""When a request is refused because too much waits."""

import pytest

from embedder.core.errors import OverloadedError
from embedder.server.bounds import Bounds, Shares, ThroughputEstimator


def shares(**held: int) -> Shares:
    """Return what these callers hold."""
    made = Shares("tokens")
    for caller, amount in held.items():
        made.take(caller, amount)
    return made


def test_what_fits_is_admitted() -> None:
    """What is held and what is added fit together up to the bound."""
    shares(a=60).check("a", 40, 100)
    with pytest.raises(OverloadedError, match=r"it has 60 tokens of this caller, and at most 100"):
        shares(a=60).check("a", 41, 100)


def test_a_request_larger_than_the_bound_is_admitted_into_a_half_empty_queue() -> None:
    """Otherwise a large list would wait for a moment in which nothing waits."""
    shares(a=50).check("a", 5000, 100)
    with pytest.raises(OverloadedError):
        shares(a=51).check("a", 5000, 100)


def test_a_caller_that_holds_nothing_is_admitted() -> None:
    """However much others hold, and however slow the model is measured to be."""
    shares(a=5000).check("b", 5000, 0)


def test_a_caller_may_take_what_is_free_and_always_its_equal_part() -> None:
    """One that has taken all of a bound leaves the others their parts."""
    full = shares(a=78, b=21, c=1)
    full.check("b", 12, 100)
    for caller, more in (("b", 13), ("a", 1)):
        with pytest.raises(OverloadedError, match="at most 33 are allowed now"):
            full.check(caller, more, 100)
    full.take("b", -20)
    full.check("a", 20, 100)


def test_what_is_given_back_is_free() -> None:
    """A caller that holds nothing any more counts no more."""
    held = shares(a=60, b=10)
    held.take("b", -10)
    held.check("a", 40, 100)
    assert held.total == 60


def test_the_bound_holds_for_one_too() -> None:
    """At most one request at the same time is one, not two."""
    with pytest.raises(OverloadedError):
        shares(a=1).check("a", 1, 1)


def test_the_seconds_bound_the_tokens_once_the_pace_is_known() -> None:
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
def test_retry_after_is_the_time_of_the_callers_own_work(
    held: dict[str, int], pace: float, seconds: str
) -> None:
    """Its part of the model is equal to the others'. It is in whole seconds, 1 at least."""
    with pytest.raises(OverloadedError) as caught:
        shares(**held).check("a", 50, 50, seconds_each=pace)
    assert caught.value.headers == {"retry-after": seconds}
    assert caught.value.message.endswith(f"again in {seconds} s.")


def test_few_tokens_say_nothing() -> None:
    """The first runs also read the weights, so that no request is refused because of them."""
    throughput = ThroughputEstimator()
    throughput.add(8, 5.0)
    assert throughput.seconds_per_token is None


def test_it_is_the_mean_of_the_last_tokens() -> None:
    """A slow start is forgotten, and a change is followed."""
    throughput = ThroughputEstimator()
    for _ in range(4):
        throughput.add(256, 0.512)
    assert throughput.seconds_per_token == pytest.approx(0.002)
    for _ in range(2000):
        throughput.add(256, 0.0256)
    assert throughput.seconds_per_token == pytest.approx(0.0001, rel=0.01)
