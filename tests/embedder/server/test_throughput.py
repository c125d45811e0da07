"""The measured pace of the model."""

import pytest

from embedder.server.throughput import MeasuredPace


def test_few_tokens_say_nothing() -> None:
    """The first runs also read the weights, so that no request is refused because of them."""
    pace = MeasuredPace()
    pace.measured(8, 5.0)
    assert pace.seconds_per_token is None


def test_it_is_the_mean_of_the_last_tokens() -> None:
    """A slow start is forgotten, and a change is followed."""
    pace = MeasuredPace()
    for _ in range(4):
        pace.measured(256, 0.512)
    assert pace.seconds_per_token == pytest.approx(0.002)
    for _ in range(2000):
        pace.measured(256, 0.0256)
    assert pace.seconds_per_token == pytest.approx(0.0001, rel=0.01)
