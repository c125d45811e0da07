"""Cold starts at the beginning of a test."""

import numpy as np
import pytest

from embedding_costs.simulation import Sample, most_recent
from embedding_load.simulation import starts_from_nothing


def test_requests_during_an_initialization_start_more_environments():
    """Ten requests within the 0.8 s of the first one's; the eleventh finds them ready."""
    due = [*np.linspace(0, 0.7, 10), 2.0]
    found = [(time, 0.01) for time in due]
    assert starts_from_nothing(found, init_seconds=0.8, timeout=300) == 10


def test_an_environment_ends_after_its_timeout():
    """A request a minute later finds it, one six minutes later does not."""
    due = [(0.0, 0.1), (60.0, 0.1), (420.0, 0.1)]
    assert starts_from_nothing(due, init_seconds=0.8, timeout=300) == 2


@pytest.mark.parametrize("rate", [0.01, 1.0, 30.0])
def test_without_initializations_it_is_the_simulation_of_the_cost_command(rate):
    """Both take the environment that was used last."""
    random = np.random.default_rng(1)
    arrivals = np.cumsum(random.exponential(1 / rate, 3000))
    durations = random.exponential(0.3, 3000)
    expected = most_recent(Sample(arrivals, durations), 300.0)
    pairs = zip(arrivals.tolist(), durations.tolist(), strict=True)
    assert starts_from_nothing(pairs, init_seconds=0.0, timeout=300.0) == expected
