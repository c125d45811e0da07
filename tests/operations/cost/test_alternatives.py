"""Test the prices of all ways to serve, against amounts that were calculated by hand."""

import pytest

from embedding_kit.prices import hosted_models, load_prices
from operations.cost import workload
from operations.cost.alternatives import (
    FARGATE,
    ON_DEMAND,
    PROVISIONED,
    SNAPSTART,
    Scenario,
    alternatives,
    break_even,
    busy_beyond,
    usd,
)
from operations.cost.workload import Month

PRICES, SERVED = load_prices(), alternatives(hosted_models())
#: A request without the overhead of the runtime.
OVERHEAD = 0.003


def scenario(requests, seconds=0.28, *, tokens=512, **changed):
    """Return a scenario of requests with these billed seconds each, by default at 2,048 MB."""
    month = Month(requests=requests, tokens=tokens)
    settings = {"memory_mb": 2048, **changed}
    return Scenario(month=month, core_seconds=seconds - OVERHEAD, **settings)


def bill(name, found):
    return SERVED[name](PRICES, found)


def test_a_million_requests_of_280_ms_at_2_gb_cost_7_dollars_67():
    """560,000 GB-seconds cost $7.47, and the requests $0.20."""
    items = {item.name: item.usd for item in bill(ON_DEMAND, scenario(1e6))}
    assert items == pytest.approx({"requests": 0.20, "duration": 7.4667}, rel=1e-4)


def test_a_snapshot_of_2_gb_costs_7_dollars_91_a_month_and_a_restore_28_thousandths_of_a_cent():
    """A chapter says that SnapStart has no additional cost."""
    assert usd(bill(SNAPSTART, scenario(0))) == pytest.approx(7.91, rel=0.001)
    cold, warm = (usd(bill(SNAPSTART, scenario(1e6, cold_share=share))) for share in (1.0, 0.0))
    assert (cold - warm) / 1e6 == pytest.approx(0.00028, rel=0.01)


def test_provisioned_concurrency_pays_off_above_60_percent_use():
    """At 60% use, one environment costs as much as the same duration on demand."""
    busy = 0.6 * 730 * 3600
    busy_scenario = scenario(busy / 0.3, 0.3, bounds=(1, 1))
    items = {item.name: item for item in bill(PROVISIONED, busy_scenario)}
    assert items["provisioned"].usd == pytest.approx(17.52, rel=0.001)
    always = usd(bill(PROVISIONED, scenario(busy / 0.3, 0.3)))
    assert always > items["provisioned"].usd
    duration = items["duration"].amount + items["duration beyond it"].amount
    assert 17.52 + duration * 0.0000077778 == pytest.approx(duration * 0.0000133334, rel=0.001)


def test_tasks_are_billed_with_addresses_and_a_load_balancer():
    """Two at least; each costs $32.48, and the load balancer with two addresses $29.57."""
    assert usd(bill(FARGATE, scenario(1e3))) == pytest.approx(94.53, rel=0.001)
    # 19.2 requests a second of 0.28 vCPU seconds are 5.4 busy vCPUs, of 11.6 with 60% and a spare.
    (vcpus, *_) = bill(FARGATE, scenario(5.05e7))
    assert vcpus.amount == 12 * 730


@pytest.mark.parametrize(("tokens", "expected"), [(500, 10), (2048, 41)])
def test_a_hosted_api_charges_for_tokens(tokens, expected):
    """A million requests at $0.02 for a million tokens."""
    items = bill("OpenAI text-embedding-3-small", scenario(1e6, tokens=tokens))
    assert usd(items) == pytest.approx(expected, rel=0.01)


def test_lambda_becomes_dearer_than_a_server_where_their_bills_cross():
    """Short requests do, and those of 280 ms never; a larger hosted model costs more."""
    on_demand = SERVED[ON_DEMAND]
    assert break_even(PRICES, scenario(1e6, memory_mb=1769), on_demand, SERVED[FARGATE]) is None
    short = {"seconds": 0.02, "memory_mb": 3538}
    point = break_even(PRICES, scenario(1e6, **short), on_demand, SERVED[FARGATE])
    for factor, is_dearer in ((0.98, False), (1.0, True), (1.1, True)):
        served = scenario(factor * point, **short)
        assert (usd(bill(ON_DEMAND, served)) > usd(bill(FARGATE, served))) is is_dearer
    large = SERVED["OpenAI text-embedding-3-large"]
    assert break_even(PRICES, scenario(1e6), on_demand, large) is None
    assert break_even(PRICES, scenario(1e6), SERVED[FARGATE], on_demand) == 1e3


@pytest.fixture
def flat(monkeypatch):
    """Let each hour have the same rate."""
    monkeypatch.setattr(workload, "HOURLY", (1.0,))


@pytest.mark.usefixtures("flat")
def test_an_environment_serves_ten_requests_a_second():
    """Requests of 1 ms would fit a thousand times a second, and AWS allows ten."""
    requests = 100 * 730 * 3600
    assert scenario(requests, 0.004).provisioned == (10, 0.0)
    assert busy_beyond(rate=100, seconds=0.001, environments=5) == pytest.approx(0.5)


@pytest.mark.usefixtures("flat")
def test_long_requests_need_an_environment_each():
    """At 100 requests in flight on average, the 99th percentile of a Poisson number is 124."""
    assert scenario(90 * 730 * 3600, 1.0).provisioned[0] == pytest.approx(124, abs=1)
    assert scenario(1, 0.1).provisioned == (1, 0.0)


def test_requests_beyond_the_provisioned_concurrency_follow_erlangs_formula():
    """Erlang's B of 10 servers with a load of 7 is 7.87%."""
    assert busy_beyond(rate=7, seconds=1.0, environments=10) == pytest.approx(0.0787, rel=0.001)
    assert busy_beyond(rate=0, seconds=1.0, environments=1) == 0


def test_provisioned_concurrency_stays_within_its_bounds():
    """The minimum is billed without traffic. Requests beyond the maximum run on demand."""
    environments, beyond = scenario(1, 0.05, bounds=(5, 40)).provisioned
    assert environments == pytest.approx(5)
    assert beyond < 0.001
    environments, beyond = scenario(1e12, 0.05, bounds=(5, 40)).provisioned
    assert environments == pytest.approx(40)
    assert 0.5 < beyond < 1
