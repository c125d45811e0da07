"""Test the estimate of a run."""

import pytest

from embedding_costs.duration import Speed
from embedding_kit.prices import load_prices
from tuning.estimate import estimate
from tuning.measure import Plan
from tuning.sizes import SIZES
from tuning.workload import given_workload

PRICES = load_prices("us-east-1")
SPEED = Speed(points=((1000, 1000.0),), source="test")


def test_the_estimate_adds_up():
    """One size of 1,769 MB: 2 starts of 0.8 s and 1 + 1 + 9 requests of 1.003 s each."""
    found = estimate(
        SIZES[:1],
        given_workload((1000,), texts=1),
        Plan(starts=2, requests=9),
        PRICES,
        speed=SPEED,
        timeout=30,
    )
    seconds = 2 * (0.8 + 11 * 1.003)
    assert found.usd == pytest.approx(seconds * 1769 / 1024 * 0.0000133334 + 22 * 0.2e-6)
    assert found.minutes == pytest.approx((seconds + 2 * 8 + 22 * 0.1) / 60)
    assert str(found) == "about $0.00 and 1 minutes"


def test_a_model_without_times_may_take_until_the_timeout():
    """The estimate is then an upper bound."""
    workload = given_workload((32, 512), texts=1)
    plan = Plan(starts=5, requests=20)
    found = estimate(SIZES, workload, plan, PRICES, speed=None, timeout=30)
    assert str(found).startswith("at most $")
    assert found.usd > 5 * 20 * 2 * 30 * 2 * 0.0000133334


def test_a_plan_counts_its_invocations():
    """A cold one of each start; an unmeasured one and the measured ones of each length."""
    assert Plan(starts=5, requests=20).invocations(3, 2) == 3 * 5 * (1 + 2 * 21)
