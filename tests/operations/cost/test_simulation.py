"""Test the simulation against a plain model of Lambda, and the formula against the simulation."""

import heapq
from collections import deque

import numpy as np
import pytest

from operations.cost.cold_starts import cold_start_rate, cold_start_share
from operations.cost.simulated import simulated_cold_starts
from operations.cost.simulation import Sample, least_recent, most_recent, sample
from operations.cost.traffic import MONTH_SECONDS, SHAPES


def plain(requests, timeout, *, last):
    """Count cold starts one request at a time, with a list of idle environments."""
    busy: list[float] = []
    idle: deque[float] = deque()
    cold = 0
    for arrival, duration in zip(requests.arrivals, requests.durations, strict=True):
        while busy and busy[0] <= arrival:
            idle.append(heapq.heappop(busy))
        while idle and arrival - idle[0] > timeout:
            idle.popleft()
        if not idle:
            cold += 1
        elif last:
            idle.pop()
        else:
            idle.popleft()
        heapq.heappush(busy, arrival + duration)
    return cold


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("requests", "seconds", "timeout"), [(1e5, 0.3, 360), (1e6, 5.0, 20)])
def test_the_simulation_counts_what_a_plain_model_counts(shape, requests, seconds, timeout):
    """To the last cold start, for both rules."""
    drawn = sample(SHAPES[shape], requests=requests, seconds=seconds, most=3000, seed=3)
    assert len(drawn.arrivals) > 2000
    assert most_recent(drawn, timeout) == plain(drawn, timeout, last=True)
    assert least_recent(drawn, timeout) == plain(drawn, timeout, last=False)


def poisson(rate, seconds, count, *, durations="exponential"):
    random = np.random.default_rng(11)
    arrivals = np.cumsum(random.exponential(1 / rate, count))
    if durations == "constant":
        return Sample(arrivals, np.full(count, seconds))
    if durations == "lognormal":
        return Sample(arrivals, random.lognormal(np.log(seconds) - 0.32, 0.8, count))
    return Sample(arrivals, random.exponential(seconds, count))


@pytest.mark.parametrize(
    ("requests", "seconds", "timeout", "count"),
    [
        (3e3, 0.3, 360, 100_000),
        (3e4, 0.3, 360, 500_000),
        (1e5, 0.3, 360, 500_000),
        (3e5, 0.3, 360, 500_000),
        (1e6, 0.3, 60, 200_000),
        (1e6, 2.0, 360, 500_000),
        (1e7, 2.0, 60, 500_000),
        (3e7, 2.0, 60, 800_000),
    ],
)
def test_the_formula_is_within_5_percent_of_a_simulation(requests, seconds, timeout, count):
    """From 3,000 to 30 million requests a month."""
    rate = requests / MONTH_SECONDS
    simulated = most_recent(poisson(rate, seconds, count), timeout) / count
    assert cold_start_rate(rate, seconds, timeout) / rate == pytest.approx(simulated, rel=0.05)


@pytest.mark.parametrize("durations", ["constant", "lognormal"])
def test_the_distribution_of_durations_hardly_matters(durations):
    """The formula assumes exponential ones."""
    rate, count = 3e5 / MONTH_SECONDS, 600_000
    simulated = most_recent(poisson(rate, 0.3, count, durations=durations), 360) / count
    assert cold_start_rate(rate, 0.3, 360) / rate == pytest.approx(simulated, rel=0.05)


@pytest.mark.parametrize(
    ("requests", "seconds", "percent"),
    [
        (3e3, 0.3, 66.313), (3e4, 0.3, 1.972), (1e5, 0.3, 0.964), (3e5, 0.3, 0.913),
        (1e6, 0.3, 0.280), (1e6, 2.0, 0.414), (1e7, 0.3, 0.042), (1e7, 2.0, 0.091),
        (3e7, 2.0, 0.047),
    ],
)  # fmt: skip
def test_the_formula_agrees_with_an_independent_calculation(requests, seconds, percent):
    """The prototype's percentages, to the last digit that it shows."""
    found = cold_start_share(SHAPES["flat"], requests=requests, seconds=seconds, timeout=360)
    assert 100 * found == pytest.approx(percent, abs=0.0006)


def test_the_longest_idle_environment_is_the_lower_bound():
    """Taking turns keeps environments alive that would else expire."""
    drawn = poisson(1e5 / MONTH_SECONDS, 0.3, 200_000)
    assert least_recent(drawn, 360) < 0.02 * most_recent(drawn, 360)


def test_the_formula_holds_for_a_rate_that_changes_within_a_day():
    """300,000 requests a month, 90% above and below the mean: 0.52% meet a cold start."""
    share = cold_start_share(SHAPES["diurnal"], requests=3e5, seconds=0.3, timeout=360)
    drawn = sample(SHAPES["diurnal"], requests=3e5, seconds=0.3, most=10**9, seed=1)
    simulated = most_recent(drawn, 360) / len(drawn.arrivals)
    assert share == pytest.approx(0.0052, rel=0.05)
    assert share == pytest.approx(simulated, rel=0.05)


def test_the_formula_is_too_low_for_bursts():
    """At 3 million requests a month about 4.4 times: bursts must be simulated."""
    share = cold_start_share(SHAPES["bursty"], requests=3e6, seconds=0.3, timeout=360)
    drawn = sample(SHAPES["bursty"], requests=3e6, seconds=0.3, most=500_000, seed=1)
    simulated = most_recent(drawn, 360) / len(drawn.arrivals)
    assert 4.0 < simulated / share < 4.8


def test_a_longer_timeout_means_fewer_cold_starts():
    """And no traffic meets none."""
    shares = [
        cold_start_share(SHAPES["diurnal"], requests=1e6, seconds=0.1, timeout=60 * minutes)
        for minutes in (5, 10, 15)
    ]
    assert shares == sorted(shares, reverse=True)
    assert cold_start_share(SHAPES["flat"], requests=0, seconds=0.1, timeout=300) == 0


def test_a_sample_has_the_months_rate_and_shape():
    """69% of a diurnal day come from 9 to 19 o'clock, 95% of a burst in its first five minutes."""
    diurnal = sample(SHAPES["diurnal"], requests=3e6, seconds=0.1, most=150_000, seed=0)
    assert len(diurnal.arrivals) == pytest.approx(2 * 3e6 / 730 * 24, rel=0.02)
    hours = diurnal.arrivals % 86_400 / 3600
    assert np.mean((hours >= 9) & (hours < 19)) == pytest.approx(0.693, abs=0.01)
    bursty = sample(SHAPES["bursty"], requests=3e6, seconds=0.1, most=150_000, seed=0)
    assert np.mean(bursty.arrivals % 3600 < 300) == pytest.approx(0.95, abs=0.01)
    assert np.all(np.diff(bursty.arrivals) >= 0)


def test_the_formula_takes_any_load():
    """Thousands of requests in flight, where a Poisson probability is below the smallest number."""
    shares = [
        cold_start_share(SHAPES["diurnal"], requests=requests, seconds=1.0, timeout=300)
        for requests in (3e8, 1e9, 1e10)
    ]
    assert 1e-3 > shares[0] > shares[1] > shares[2] > 0


def test_the_simulation_has_a_progress_bar(capsys):
    """On standard error, in requests; and none where it is not wanted."""
    drawn = sample(SHAPES["bursty"], requests=1e5, seconds=0.1, most=1000)
    band = simulated_cold_starts(drawn, progress=True)
    assert "simulating: 100%" in capsys.readouterr().err
    assert 0 < band.lowest <= band.recent <= band.highest
    simulated_cold_starts(drawn, progress=False)
    assert capsys.readouterr().err == ""
