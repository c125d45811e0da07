"""Which inputs share a run, how long one takes, and the cache of vectors."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.batching import RuntimeEstimator, VectorCache, padded_length, plan

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


def vectors(*values: float) -> np.ndarray:
    """Return one vector for each value, which is in every component."""
    return np.repeat(np.array(values, dtype=np.float32)[:, None], 3, axis=1)


def found(cache: VectorCache, *inputs: bytes) -> list[float | None]:
    return [None if vector is None else float(vector[0]) for vector in cache.get(inputs)]


def test_what_was_put_is_got():
    """As a copy, not a view into the batch's array, and only for its own key, until `clear`."""
    cache = VectorCache(2)
    cache.put([b"a"], vectors(1))
    (kept, missing) = cache.get([b"a", b"b"])
    assert kept is not None
    assert (kept.tolist(), kept.base, missing) == ([1, 1, 1], None, None)
    cache.clear()
    assert found(cache, b"a") == [None]


def test_a_cache_of_nothing_keeps_nothing():
    """A size of zero disables the cache."""
    cache = VectorCache(0)
    cache.put([b"a"], vectors(1))
    assert len(cache) == 0


def test_the_least_recently_used_goes_first():
    """The cache never exceeds its size, and reading a vector marks it as recently used."""
    cache = VectorCache(2)
    cache.put([b"a", b"b"], vectors(1, 2))
    assert found(cache, b"a") == [1]
    cache.put([b"c"], vectors(3))
    assert len(cache) == 2
    assert found(cache, b"a", b"b", b"c") == [1, None, 3]


def test_threads_may_share_it():
    """Threads that fill a small cache and read from it never fail, and read only right vectors."""
    cache = VectorCache(8)
    names = [b"%d" % number for number in range(24)]
    barrier = threading.Barrier(4)

    def use(seed: int) -> int:
        barrier.wait()
        wrong = 0
        for step in range(1500):
            number = (seed * 7 + step * 5) % 24
            cache.put([names[number]], vectors(number))
            wrong += any(
                value not in (None, expected) for expected, value in enumerate(found(cache, *names))
            )
        return wrong

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(use, range(4))) == [0] * 4
    finally:
        sys.setswitchinterval(interval)
    assert len(cache) == 8
