"""The plan of a test: arrivals and lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding_costs.traffic import SHAPES
from embedding_load.schedule import arrivals, lengths, plan

SHAPE = st.sampled_from(sorted(SHAPES))
RATE = st.floats(0.1, 200)
SECONDS = st.floats(0.5, 300)
SEED = st.integers(0, 2**32)


@given(SHAPE, RATE, SECONDS, st.integers(1, 500), SEED)
def test_arrivals_rise_within_the_test_up_to_the_limit(shape, rate, seconds, most, seed):
    """Whatever the shape, the rate and the length."""
    due = arrivals(SHAPES[shape], rate=rate, seconds=seconds, most=most, seed=seed)
    assert len(due) <= most
    assert np.all(np.diff(due) >= 0)
    assert np.all((due >= 0) & (due < seconds))


@given(SHAPE, RATE, SECONDS, SEED)
def test_one_seed_gives_one_plan(shape, rate, seconds, seed):
    """And a lower limit of requests is the beginning of the same plan."""
    loads = SHAPES[shape]
    whole = arrivals(loads, rate=rate, seconds=seconds, most=400, seed=seed)
    part = arrivals(loads, rate=rate, seconds=seconds, most=100, seed=seed)
    assert np.array_equal(part, whole[:100])


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_the_mean_rate_is_the_one_asked_for(shape):
    """The shape moves requests, and does not add any: within five standard deviations."""
    due = arrivals(SHAPES[shape], rate=100, seconds=600, most=10**6, seed=3)
    assert abs(len(due) - 60_000) < 5 * 60_000**0.5


def test_gaps_are_those_of_independent_callers():
    """Exponential: their standard deviation equals their mean, and 63% are below it."""
    gaps = np.diff(arrivals(SHAPES["flat"], rate=50, seconds=600, most=10**6, seed=1))
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.03)
    assert (gaps < gaps.mean()).mean() == pytest.approx(1 - np.exp(-1), abs=0.01)


def test_a_diurnal_test_is_a_day_in_miniature():
    """The rate is 19 times as high at its peak at 14:00 as at its trough at 2:00."""
    drawn = plan(rate=100, shape="diurnal", seconds=240, tokens=(1, 1), most=10**6, seed=0)
    hours = np.histogram(drawn.due, bins=24, range=(0, 240))[0]
    assert hours[14] / hours[2] > 8
    assert drawn.peak == pytest.approx(189, rel=0.01)


def test_a_bursty_test_begins_with_its_burst():
    """95% of the requests come in the first twelfth."""
    drawn = plan(rate=50, shape="bursty", seconds=120, tokens=(1, 1), most=10**6, seed=0)
    assert (drawn.due < 10).mean() == pytest.approx(0.95, abs=0.02)


@given(st.integers(1, 500), st.integers(0, 2000), SEED)
def test_lengths_are_within_their_range(low, more, seed):
    """Both ends included."""
    drawn = lengths(low, low + more, count=200, seed=seed)
    assert low <= drawn.min()
    assert drawn.max() <= low + more


def test_half_of_the_texts_are_below_the_geometric_middle():
    """The logarithm is uniform: of 8 to 400 tokens, half have fewer than 57."""
    drawn = lengths(8, 400, count=20_000, seed=0)
    assert (drawn < (8 * 401) ** 0.5).mean() == pytest.approx(0.5, abs=0.02)
    assert {8, 400} <= set(drawn.tolist())


def test_the_limit_of_requests_caps_the_plan():
    """The plan knows whether the limit or its time ends it."""

    def drawn(most):
        return plan(rate=50, shape="flat", seconds=10, tokens=(8, 16), most=most, seed=0)

    assert drawn(100).capped
    assert len(drawn(100).due) == 100
    assert not drawn(10_000).capped
