"""Which inputs share a run, and how long one takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.planning import RuntimeEstimator, padded_length, plan

LIMIT = 300
LENGTHS = st.lists(st.integers(1, LIMIT), max_size=60)


@given(LENGTHS, st.integers(1, 1000))
def test_each_input_is_in_a_run_of_its_padded_length(lengths, budget):
    """So its vector is the same in every batch; the budget limits the memory of a run."""
    runs = plan(lengths, limit=LIMIT, budget=budget)
    positions = [position for run in runs for position in run.positions]
    assert sorted(positions) == list(range(len(lengths)))
    for run in runs:
        assert len(run.positions) == 1 or len(run.positions) * run.tokens <= budget
        padded = {padded_length(lengths[position], LIMIT) for position in run.positions}
        assert padded == {run.tokens}


@given(st.integers(1, 2048), st.integers(1, 2048))
def test_padding_is_little_and_never_over_the_limit(length, over):
    """Padding is at most 3 tokens up to a length of 64, 7 up to 256, and 0 above."""
    limit = length + over
    padding = padded_length(length, limit) - length
    assert 0 <= padding <= min(over, 3 if length <= 64 else 7 if length <= 256 else 0)


def test_like_lengths_are_spread_evenly_and_unlike_ones_kept_apart():
    """A long text does not increase the padding of short ones; nothing needs no run."""
    runs = plan([8] * 100, limit=LIMIT, budget=256)
    assert [len(run.positions) for run in runs] == [25, 25, 25, 25]
    assert plan([5, 250, 5, 6], limit=LIMIT) == [([1], 256), ([0, 2, 3], 8)]
    assert plan([], limit=LIMIT) == []


def estimator_of(*runs: tuple[int, float]) -> RuntimeEstimator:
    """Return an estimator with these measured runs, each with tokens and seconds."""
    estimator = RuntimeEstimator()
    for tokens, seconds in runs:
        estimator.add(tokens, seconds)
    return estimator


@pytest.mark.parametrize(
    ("runs", "tokens", "seconds"),
    [
        ([], 100, None),
        ([(100, 1.0)] * 2, 100, None),
        # Runs of less than half or over twice the size do not count.
        ([(100, 1.0), (100, 1.0), (49, 1.0), (201, 1.0)], 100, None),
        ([(100, 1.0), (50, 0.5), (200, 2.0)], 100, 1.0),
        ([(100, 1.0), (100, 90.0), (100, 2.0)], 150, 3.0),
        ([*[(100, 50.0)] * 100, *[(100, 1.0)] * 5], 100, 1.0),
        # The history is limited, so that old runs are dropped.
        ([*[(100, 1.0)] * 3, *[(8, 0.1)] * 100], 100, None),
        ([*[(100, 1.0)] * 3, *[(8, 0.1)] * 100], 8, 0.1),
    ],
)
def test_a_prediction_is_the_median_of_three_comparable_runs_or_more(runs, tokens, seconds):
    """It is scaled by the tokens, and follows the newest runs."""
    assert estimator_of(*runs).seconds(tokens) == seconds


def test_forgetting_drops_what_the_prediction_used_and_nothing_else():
    """Comparable runs are dropped, and other runs are kept."""
    estimator = estimator_of(*[(100, 1.0)] * 3, *[(8, 0.1)] * 3)
    estimator.forget(100)
    assert estimator.seconds(100) is None
    assert estimator.seconds(8) == 0.1
