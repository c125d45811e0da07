"""Test how much provisioned concurrency a traffic needs, and what settings give."""

import pytest

from operations.cost.capacity import busy_beyond, needed_environments
from operations.cost.provisioned_month import provisioned_month
from operations.cost.traffic import SHAPES, Traffic


def test_an_environment_serves_ten_requests_a_second():
    """Requests of 1 ms would fit a thousand times a second, and AWS allows ten."""
    assert needed_environments(rate=100, seconds=0.001) == 10
    assert busy_beyond(rate=100, seconds=0.001, environments=5) == pytest.approx(0.5)


def test_long_requests_need_an_environment_each():
    """At 100 requests in flight on average, the 99th percentile of a Poisson number is 124."""
    assert needed_environments(rate=90, seconds=1.0) == pytest.approx(124, abs=1)
    assert needed_environments(rate=0.0001, seconds=0.1) == 1


def test_requests_beyond_the_provisioned_concurrency_follow_erlangs_formula():
    """Erlang's B of 10 servers with a load of 7 is 7.87%."""
    assert busy_beyond(rate=7, seconds=1.0, environments=10) == pytest.approx(0.0787, rel=0.001)
    assert busy_beyond(rate=0, seconds=1.0, environments=1) == 0


def kept(requests, *, shape="diurnal"):
    traffic = Traffic(requests=requests, tokens=128, shape=shape, loads=SHAPES[shape])
    return provisioned_month(traffic, 0.05, bounds=(1, 2), target_utilization=0.5)


@pytest.mark.parametrize("shape", SHAPES)
def test_without_traffic_the_minimum_is_kept(shape):
    """It is billed all the same."""
    average, beyond = kept(1, shape=shape)
    assert average == pytest.approx(1)
    assert beyond < 0.001


def test_traffic_above_the_maximum_runs_on_demand():
    """Two environments serve 20 requests a second, however many come."""
    average, beyond = kept(1e9)
    assert average == pytest.approx(2)
    assert 0.5 < beyond < 1
