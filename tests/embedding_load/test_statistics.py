"""Percentiles and counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding_load.outcomes import Kind, Outcome
from embedding_load.statistics import PERCENTILES, by_second, generator, spread

TIMES = st.lists(st.floats(0, 1e4), min_size=1, max_size=300)


def outcome(due=0.0, *, kind=Kind.OK, taken=None, sent=None, ended=None, cold=False):
    taken = due if taken is None else taken
    sent = taken if sent is None else sent
    ended = sent + 0.01 if ended is None else ended
    return Outcome(kind, 200, due, taken, sent, ended, 10, 10, cold)


@given(TIMES)
def test_percentiles_are_those_of_numpy(times):
    """By the inverse of the empirical distribution: each is one of the times."""
    found = spread(times)
    for name, share in PERCENTILES.items():
        expected = np.percentile(times, 100 * share, method="inverted_cdf")
        assert found.at[name] == expected, name
    assert found.at["max"] == max(times)
    assert found.count == len(times)
    assert found.mean == pytest.approx(np.mean(times))


def test_nothing_has_no_percentiles():
    """None, and no zeros that would look like a fast endpoint."""
    assert spread([]) is None


OUTCOMES = st.lists(
    st.builds(
        outcome,
        due=st.floats(0, 50),
        kind=st.sampled_from(Kind),
        cold=st.booleans(),
    ),
    max_size=100,
)


@given(OUTCOMES, st.floats(0.5, 60), st.integers(1, 30))
def test_each_request_is_in_one_stretch(outcomes, seconds, parts):
    """The stretches have whole seconds, follow each other, and lose nothing."""
    found = by_second(outcomes, seconds=seconds, parts=parts)
    assert len(found) <= parts
    assert sum(part.due for part in found) == len(outcomes)
    assert sum(part.answered for part in found) == sum(o.kind is Kind.OK for o in outcomes)
    assert sum(part.cold_starts for part in found) == sum(o.cold for o in outcomes)
    assert [part.begin for part in found] == [n * found[0].seconds for n in range(len(found))]
    assert found[0].seconds == int(found[0].seconds)


def test_a_refusal_is_not_among_the_latencies():
    """It comes fast, and would make the endpoint look better; a timeout belongs to them."""
    ended = [
        outcome(kind=Kind.OK, ended=0.2),
        outcome(kind=Kind.THROTTLED, ended=0.001),
        outcome(kind=Kind.REFUSED, ended=0.001),
        outcome(kind=Kind.TIMEOUT, ended=0.9),
    ]
    (part,) = by_second(ended, seconds=1, parts=10)
    assert part.latency.count == 2
    assert part.latency.at["max"] == 0.9
    assert (part.throttled, part.errors) == (1, 2)


def test_a_generator_that_is_late_is_told_from_a_busy_endpoint():
    """Late is what this process did not take in time; waiting for a connection is not."""
    on_time = [outcome(due=n / 10) for n in range(99)]
    waiting = generator([*on_time, outcome(due=9.9, sent=12.0)._replace(waited=True)])
    assert (waiting.late, waiting.waited, waiting.fell_behind) == (0, 1, False)
    late = generator([*on_time[:90], *(outcome(due=n, taken=n + 0.5) for n in range(9, 20))])
    assert (late.late, late.waited, late.fell_behind) == (11, 0, True)
    few = generator([*on_time, outcome(due=9.9, taken=10.0)])
    assert (few.late, few.fell_behind) == (1, False)
    assert late.delay.at["max"] == pytest.approx(0.5)
