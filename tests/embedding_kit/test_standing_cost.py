"""Test what an environment costs without a request, and the default of its budget."""

import pytest

from embedding_kit.environment import Environment
from embedding_kit.prices import load_prices
from embedding_kit.standing_cost import (
    capacity_items,
    default_budget,
    monitoring_items,
    server_items,
    stored_zip,
)

MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
PRICES = load_prices()


def environment(**tables):
    return Environment.model_validate({"name": "test", "model": MODEL, **tables})


def usd(items):
    return {item.name: round(item.usd, 2) for item in items}


def test_monitoring_costs_the_same_in_every_month():
    """Alarms by the metrics that they read, the composite alarm, dashboard, key and image."""
    assert usd(monitoring_items(environment(), PRICES)) == {
        "alarms, by metrics": 1.90,
        "composite alarm": 0.50,
        "dashboard": 3.00,
        "key of the topic": 1.00,
        "image": 0.05,
    }


def test_a_zip_is_stored_for_less_than_a_cent():
    """S3 stores it, and its environment has no repository."""
    found = usd(monitoring_items(environment(function={"package": "zip"}), PRICES))
    assert found.keys() == usd(monitoring_items(environment(), PRICES)).keys() - {"image"} | {"zip"}
    assert 0 <= found["zip"] < 0.01


def test_an_artifact_in_s3_is_stored_beside_its_zip():
    """S3 stores the packages and the code in the zip, and the artifact as another object."""
    function = {"package": "zip", "artifact": "s3"}
    outside = stored_zip(environment(function=function, cold_start={"kind": "snapstart"}))
    inside = stored_zip(environment(function={"package": "zip"}))
    assert inside.artifact_gb == 0
    assert inside.zip_gb == pytest.approx(outside.zip_gb + outside.artifact_gb)
    assert outside.artifact_gb == pytest.approx(0.025, rel=0.05)


def test_an_artifact_of_unknown_size_counts_as_the_largest():
    """A model of the hub may be larger than one of the catalog."""
    unknown = {"name": "acme/own-model"}
    assert stored_zip(environment(model=unknown, function={"package": "zip"})).zip_gb > 0.15


def test_on_demand_costs_nothing_without_a_request():
    """SnapStart keeps a snapshot, and provisioned concurrency its minimum."""
    assert capacity_items(environment(), PRICES) == ()
    snapstart = environment(cold_start={"kind": "snapstart"})
    assert usd(capacity_items(snapstart, PRICES)) == {"snapshot": 7.91}
    provisioned = environment(cold_start={"kind": "provisioned", "minimum": 3})
    assert usd(capacity_items(provisioned, PRICES)) == {"provisioned concurrency": 52.56}


def test_a_schedule_changes_what_is_kept():
    """Five environments instead of one at 50 of 168 hours: 2.19 on average."""
    entries = [
        {"name": "day", "at": "cron(0 8 ? * MON-FRI *)", "minimum": 5, "maximum": 10},
        {"name": "night", "at": "cron(0 18 ? * MON-FRI *)", "minimum": 1, "maximum": 10},
    ]
    scheduled = environment(cold_start={"kind": "provisioned", "schedule": entries})
    one = environment(cold_start={"kind": "provisioned"})
    ratio = capacity_items(scheduled, PRICES)[0].usd / capacity_items(one, PRICES)[0].usd
    assert ratio == pytest.approx(1 + 4 * 50 / 168)


def test_the_default_budget_is_one_and_a_half_times_the_standing_cost_and_10_dollars():
    """Rounded up to $5."""
    assert default_budget(environment(), PRICES) == 20  # 1.5 x 6.45 + 10
    large = environment(cold_start={"kind": "provisioned", "minimum": 10, "maximum": 20})
    assert default_budget(large, PRICES) == 285  # 1.5 x (175.24 + 7.05) + 10


def test_the_default_budget_includes_the_fewest_tasks_of_a_server():
    """They run without a request, and so does the load balancer."""
    server = {
        "vpc": "vpc-0123456789abcdef0",
        "subnets": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
        "clients": ["10.0.0.0/16"],
        "no_keys": True,
    }
    served = environment(server=server)
    assert usd(server_items(served, PRICES)) == {
        "server, vCPU": 47.27,
        "server, memory": 10.40,
        "server, load balancer": 16.43,
        "server, its capacity": 5.84,
    }
    assert server_items(environment(), PRICES) == ()
    assert default_budget(served, PRICES) == 145  # 1.5 x (79.94 + 7.35) + 10
