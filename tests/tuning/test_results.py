"""Test what measured times become: costs, percentiles, and the recommendation."""

import numpy as np
import pytest

from embedding_kit.prices import load_prices
from tuning.errors import TuneError
from tuning.invocation import Report
from tuning.measure import Measured
from tuning.results import recommended, summarize
from tuning.sizes import SIZES, Size

ONE, DEFAULT, TWO = SIZES
VECTOR = np.array([[0.6, 0.8]], dtype=np.float32)


def measured(size: Size, *times: float, vector: np.ndarray = VECTOR) -> Measured:
    """Return what a size showed: a time in milliseconds for each length, one start."""
    return Measured(
        size,
        inits=[700.0],
        warm=[[Report(time, time, None, size.memory_mb, 300)] for time in times],
        vectors=[[vector] for _ in times],
        peak_mb=300,
    )


def results(*found: Measured):
    shares = [1 / len(found[0].warm)] * len(found[0].warm)
    return summarize(found, shares, load_prices("us-east-1"))


def test_a_million_requests_cost_their_billed_time_and_the_requests():
    """The figure that an article gets wrong: 2,048 MB, 0.28 s, a million requests: $7.67."""
    (result,) = results(measured(DEFAULT, 280.0))
    assert result.lengths[0].usd_per_million == pytest.approx(7.67, abs=0.005)


def test_the_shares_weigh_the_lengths():
    """Mean time and mean cost are those of the environment's mix."""
    (result,) = summarize([measured(ONE, 10.0, 100.0)], [0.9, 0.1], load_prices("us-east-1"))
    assert result.mean_ms == pytest.approx(19.0)
    low, high = (length.usd_per_million for length in result.lengths)
    assert result.mean_usd == pytest.approx(0.9 * low + 0.1 * high)


def test_the_99th_percentile_is_a_measured_time():
    """Of a hundred requests, the second slowest."""
    one = measured(ONE, 1.0)
    one.warm = [[Report(float(n), n, None, 1769, 1) for n in range(1, 101)]]
    (result,) = results(one)
    assert (result.lengths[0].p50, result.lengths[0].p99) == (50.5, 99.0)
    assert result.lengths[0].samples == 100


def test_for_one_thread_one_vcpu_is_recommended():
    """The default takes as long and costs more; two threads gain nothing for short texts."""
    found = results(measured(ONE, 20.0), measured(DEFAULT, 20.0), measured(TWO, 18.0))
    assert recommended(found).size == ONE


def test_for_long_texts_two_threads_are_recommended():
    """1.7 times as fast for 1.18 times the cost."""
    found = results(measured(ONE, 1700.0), measured(DEFAULT, 1700.0), measured(TWO, 1000.0))
    assert recommended(found).size == TWO


def test_noise_does_not_recommend_a_larger_size():
    """It must be better by 5%."""
    found = results(measured(ONE, 1000.0), measured(DEFAULT, 920.0))
    assert recommended(found).size == ONE


def test_a_size_with_other_vectors_is_not_recommended():
    """However fast it is. A last bit is allowed."""
    other = np.array([[0.8, 0.6]], dtype=np.float32)
    near = np.nextafter(VECTOR, np.float32(1))
    fast = measured(TWO, 100.0, vector=other)
    found = results(measured(ONE, 1000.0), fast)
    assert recommended(found).size == ONE
    assert found[1].cosine == pytest.approx(0.96)
    found = results(measured(ONE, 1000.0), measured(TWO, 100.0, vector=near))
    assert recommended(found).size == TWO
    assert not found[1].equal
    assert found[0].equal


def test_without_a_size_there_is_no_result():
    """The account allows none of them."""
    with pytest.raises(TuneError, match="no size could be measured"):
        summarize([], [], load_prices("us-east-1"))
