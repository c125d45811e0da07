"""Test the prices of all ways to serve, against amounts that were calculated by hand."""

import pytest

from embedding_kit.prices import hosted_models, load_prices
from operations.cost.ways import (
    ON_DEMAND,
    PROVISIONED,
    SNAPSTART,
    Scenario,
    break_even,
    busy_beyond,
    usd,
    ways,
)
from operations.cost.workload import Month

PRICES, WAYS = load_prices(), ways(hosted_models())
FREE_TIER = f"{ON_DEMAND}, after the free tier"
EC2 = "EC2 t4g.small, load balancer"
#: A request without the overhead of the runtime.
OVERHEAD = 0.003


def scenario(requests, seconds=0.28, *, shape="flat", tokens=512, **changed):
    """Return requests of so many billed seconds, at 2,048 MB if nothing else is said."""
    month = Month(requests=requests, tokens=tokens, shape=shape)
    given = {"memory_mb": 2048, **changed}
    return Scenario(month=month, core_seconds=seconds - OVERHEAD, **given)


def bill(name, found):
    return WAYS[name](PRICES, found)


def test_a_million_requests_of_280_ms_at_2_gb_cost_7_dollars_67():
    """560,000 GB-seconds cost $7.47, and the requests $0.20; the free tier leaves $2.13."""
    items = {item.name: item.usd for item in bill(ON_DEMAND, scenario(1e6))}
    assert items == pytest.approx(
        {"requests": 0.20, "duration": 7.4667, "initializations": 0.0}, rel=1e-4
    )
    assert usd(bill(FREE_TIER, scenario(1e6))) == pytest.approx(2.13, abs=0.005)


def test_free_duration_does_not_pay_for_requests():
    """Three million short requests are within the free duration, and two million are billed."""
    assert usd(bill(FREE_TIER, scenario(3e6, 0.053))) == pytest.approx(0.40)


def test_initializations_are_billed_for_cold_starts():
    """A quarter of a second of 2 GB costs seven millionths of a dollar."""
    cold, warm = (
        usd(bill(ON_DEMAND, scenario(1e6, cold_share=share, init_seconds=0.25)))
        for share in (1.0, 0.0)
    )
    assert (cold - warm) / 1e6 == pytest.approx(0.25 * 2 * 0.0000133334)


def test_a_snapshot_of_2_gb_costs_7_dollars_91_a_month_and_a_restore_28_thousandths_of_a_cent():
    """A chapter says that SnapStart has no additional cost."""
    assert usd(bill(SNAPSTART, scenario(0))) == pytest.approx(7.91, rel=0.001)
    cold, warm = (usd(bill(SNAPSTART, scenario(1e6, cold_share=share))) for share in (1.0, 0.0))
    assert (cold - warm) / 1e6 == pytest.approx(0.00028, rel=0.01)


def test_provisioned_concurrency_pays_off_above_60_percent_use():
    """At 60% use, one environment costs as much as the same duration on demand."""
    busy = 0.6 * 730 * 3600
    found = scenario(busy / 0.3, 0.3, bounds=(1, 1))
    items = {item.name: item for item in bill(PROVISIONED, found)}
    assert items["provisioned"].usd == pytest.approx(17.52, rel=0.001)
    always = usd(bill(PROVISIONED, scenario(busy / 0.3, 0.3)))
    assert always > items["provisioned"].usd
    duration = items["duration"].amount + items["duration beyond it"].amount
    assert 17.52 + duration * 0.0000077778 == pytest.approx(duration * 0.0000133334, rel=0.001)


def test_servers_are_billed_with_disks_addresses_and_a_load_balancer():
    """Each t4g.small costs $17.51, and the load balancer with two addresses $29.57."""
    assert usd(bill(EC2, scenario(1e3))) == pytest.approx(64.59, rel=0.001)
    fargate = "Fargate, 1 vCPU, load balancer"
    assert usd(bill(fargate, scenario(1e3))) == pytest.approx(94.53, rel=0.001)
    assert usd(bill(fargate, scenario(3e7, 0.053, shape="diurnal"))) == pytest.approx(94.53, 0.001)
    managed = "Lambda Managed Instances, c7g.large"
    assert usd(bill(managed, scenario(0))) == pytest.approx(3 * 730 * (0.0725 + 0.010875))


def test_ten_million_requests_of_280_ms_need_surplus_credits_on_a_t4g_small():
    """They are 1.07 vCPUs on average, and the instance's baseline of two is 0.8: $8 a month."""
    items = {item.name: item.usd for item in bill(EC2, scenario(1e7))}
    assert items["above the baseline"] == pytest.approx(7.75, rel=0.03)


@pytest.mark.parametrize(("tokens", "expected"), [(500, 10), (2048, 41)])
def test_a_hosted_api_charges_for_tokens(tokens, expected):
    """A million requests at $0.02 for a million tokens."""
    found = bill("OpenAI text-embedding-3-small", scenario(1e6, tokens=tokens))
    assert usd(found) == pytest.approx(expected, rel=0.01)


def test_lambda_becomes_dearer_than_a_server_where_their_bills_cross():
    """9 million requests cost $69.39 either way; a larger hosted model costs more."""
    on_demand = WAYS[ON_DEMAND]
    point = break_even(PRICES, scenario(1e6), on_demand, WAYS[EC2])
    assert point == pytest.approx(9.05e6, rel=0.001)
    assert usd(bill(ON_DEMAND, scenario(point))) == pytest.approx(usd(bill(EC2, scenario(point))))
    large = WAYS["OpenAI text-embedding-3-large"]
    assert break_even(PRICES, scenario(1e6), on_demand, large) is None
    assert break_even(PRICES, scenario(1e6), WAYS[EC2], on_demand) == 1e3


def test_an_environment_serves_ten_requests_a_second():
    """Requests of 1 ms would fit a thousand times a second, and AWS allows ten."""
    requests = 100 * 730 * 3600
    assert scenario(requests, 0.004).provisioned == (10, 0.0)
    assert busy_beyond(rate=100, seconds=0.001, environments=5) == pytest.approx(0.5)


def test_long_requests_need_an_environment_each():
    """At 100 requests in flight on average, the 99th percentile of a Poisson number is 124."""
    assert scenario(90 * 730 * 3600, 1.0).provisioned[0] == pytest.approx(124, abs=1)
    assert scenario(1, 0.1).provisioned == (1, 0.0)


def test_requests_beyond_the_provisioned_concurrency_follow_erlangs_formula():
    """Erlang's B of 10 servers with a load of 7 is 7.87%."""
    assert busy_beyond(rate=7, seconds=1.0, environments=10) == pytest.approx(0.0787, rel=0.001)
    assert busy_beyond(rate=0, seconds=1.0, environments=1) == 0


@pytest.mark.parametrize("shape", ["flat", "diurnal"])
def test_provisioned_concurrency_stays_within_its_bounds(shape):
    """The minimum is billed without traffic, and what is beyond the maximum runs on demand."""
    kept, beyond = scenario(1, 0.05, shape=shape, bounds=(5, 40)).provisioned
    assert kept == pytest.approx(5)
    assert beyond < 0.001
    kept, beyond = scenario(1e12, 0.05, shape=shape, bounds=(5, 40)).provisioned
    assert kept == pytest.approx(40)
    assert 0.5 < beyond < 1
