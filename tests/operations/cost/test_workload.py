"""Test the time of a request, and the share of requests that meet a cold start."""

import heapq
from collections import deque

import numpy as np
import pytest

from operations.cost.workload import (
    MONTH_SECONDS,
    OVERHEAD_SECONDS,
    Month,
    Speed,
    billed_seconds,
    cold_start_share,
    cold_starts,
    core_seconds,
)

SPEED = Speed(points=((32, 16.9), (512, 261.0)), source="a test")


@pytest.mark.parametrize(
    ("tokens", "milliseconds"),
    [
        (32, 16.9),
        (512, 261.0),
        # Half way between them on a logarithmic scale.
        (128, (16.9 * 261.0) ** 0.5),
        # Reading the weights takes most of the time of a short text.
        (1, 16.9),
        # Attention grows with the square of the tokens: eight times of them take 14.9 times.
        (4096, pytest.approx(261.0 * 1668 / 113, rel=0.02)),
    ],
)
def test_times_are_interpolated_between_the_measured_lengths(tokens, milliseconds):
    """The result is in seconds."""
    assert 1000 * core_seconds(SPEED, tokens) == pytest.approx(milliseconds)


@pytest.mark.parametrize(
    ("memory_mb", "factor"), [(1769, 1.0), (884.5, 2.0), (2048, 1.0), (3538, 0.66)]
)
def test_memory_above_one_vcpu_helps_only_with_a_second_thread(memory_mb, factor):
    """Two threads take 0.66 of the time of one, and less than a vCPU is slower in proportion."""
    seconds = billed_seconds(0.1, memory_mb=memory_mb)
    assert seconds - OVERHEAD_SECONDS == pytest.approx(0.1 * factor)


def share(requests, seconds, timeout):
    return cold_start_share(Month(requests=requests), seconds=seconds, timeout=timeout)


def simulated_share(requests, seconds, timeout):
    """Return the share of cold starts of a simulated month, which begins without environments."""
    generator = np.random.default_rng(1)
    idle: deque[float] = deque()  # when each environment ended its last request
    busy: list[float] = []  # when each will end its request
    cold = arrived = 0
    for hour in range(730):
        mean = 3600 * Month(requests=requests).rates[hour % 24]
        arrivals = 3600 * (hour + np.sort(generator.random(generator.poisson(mean))))
        durations = generator.exponential(seconds, len(arrivals))
        for time, duration in zip(arrivals, durations, strict=True):
            while busy and busy[0] <= time:
                idle.append(heapq.heappop(busy))
            while idle and idle[0] < time - timeout:
                idle.popleft()
            if idle:
                idle.pop()  # the environment that was used last
            else:
                cold += 1
            heapq.heappush(busy, time + duration)
        arrived += len(arrivals)
    return cold / arrived


@pytest.mark.parametrize(("requests", "seconds"), [(3e3, 0.3), (3e4, 0.3), (1e5, 2.0), (3e5, 0.3)])
def test_the_share_of_cold_starts_is_that_of_a_simulated_month(requests, seconds):
    """Requests arrive independently, by the rate of the hour."""
    simulated = simulated_share(requests, seconds, 300)
    assert share(requests, seconds, 300) == pytest.approx(simulated, rel=0.15)


@pytest.mark.parametrize(
    ("requests", "seconds", "percent"),
    [
        (3e3, 0.3, 66.313), (3e4, 0.3, 1.972), (1e5, 0.3, 0.964), (3e5, 0.3, 0.913),
        (1e6, 0.3, 0.280), (1e6, 2.0, 0.414), (1e7, 0.3, 0.042), (1e7, 2.0, 0.091),
        (3e7, 2.0, 0.047),
    ],
)  # fmt: skip
def test_the_share_of_cold_starts_is_within_15_percent_of_the_exact_one(requests, seconds, percent):
    """The percentages are of an independent calculation with exact passage times."""
    rate = requests / MONTH_SECONDS
    assert 100 * cold_starts(rate, seconds, 360) / rate == pytest.approx(percent, rel=0.15)


def test_a_longer_timeout_means_fewer_cold_starts():
    """And no traffic meets none."""
    shares = [share(1e6, 0.1, 60 * minutes) for minutes in (5, 10, 15)]
    assert shares == sorted(shares, reverse=True)
    assert share(0, 0.1, 300) == 0


def test_the_formula_takes_any_load():
    """Thousands of requests in flight, where a Poisson probability is below the smallest number."""
    shares = [share(requests, 1.0, 300) for requests in (3e8, 1e9, 1e10)]
    assert 1e-3 > shares[0] > shares[1] > shares[2] > 0
