"""Test how measured times become the billed time of a request."""

import pytest

from operations.cost.duration import OVERHEAD_SECONDS, Speed, billed_seconds, core_seconds

SPEED = Speed(points=((32, 16.9), (512, 261.0)), source="a test")


def test_a_measured_length_takes_the_measured_time():
    """Times are milliseconds, and the result is in seconds."""
    assert core_seconds(SPEED, 32) == pytest.approx(0.0169)
    assert core_seconds(SPEED, 512) == pytest.approx(0.261)


def test_a_length_between_two_is_interpolated_on_logarithms():
    """Half way between 32 and 512 tokens on a logarithmic scale are 128."""
    assert core_seconds(SPEED, 128) == pytest.approx((16.9 * 261.0) ** 0.5 / 1000)


def test_a_shorter_text_takes_as_long_as_the_shortest_that_was_measured():
    """Reading the weights takes most of the time of a short text."""
    assert core_seconds(SPEED, 1) == core_seconds(SPEED, 32)


def test_a_longer_text_takes_more_than_in_proportion():
    """Attention grows with the square of the tokens: eight times the tokens take 14.9 times."""
    ratio = core_seconds(SPEED, 4096) / core_seconds(SPEED, 512)
    assert ratio == pytest.approx(1668 / 113, rel=0.02)


def test_a_slower_processor_takes_longer():
    """`slower` is a factor of all times."""
    slow = Speed(points=SPEED.points, source="a test", slower=1.5)
    assert core_seconds(slow, 100) == pytest.approx(1.5 * core_seconds(SPEED, 100))


@pytest.mark.parametrize(
    ("memory_mb", "threads", "factor"),
    [
        (1769, None, 1.0),
        (884.5, None, 2.0),
        (2048, None, 1.0),
        (3538, None, 1 / 1.7),
        (3538, 1, 1.0),
        (1769, 2, 1.0),
    ],
)
def test_memory_above_one_vcpu_helps_only_with_a_second_thread(memory_mb, threads, factor):
    """Two threads are 1.7 times as fast, and less than a vCPU is slower in proportion."""
    seconds = billed_seconds(0.1, memory_mb=memory_mb, threads=threads)
    assert seconds - OVERHEAD_SECONDS == pytest.approx(0.1 * factor)
