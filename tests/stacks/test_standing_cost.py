"""Test what an environment costs without a request, and the default of its budget."""

from pathlib import Path

import pytest

from embedding_kit.prices import HOURS, load_prices
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment
from stacks.standing_cost import capacity_items, default_budget, server_items

MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
PRICES = load_prices()


def environment(**tables):
    return EnvironmentSettings.model_validate({"name": "test", "model": MODEL, **tables})


def usd(items):
    return {item.name: round(item.usd, 2) for item in items}


def test_on_demand_costs_nothing_without_a_request():
    """SnapStart keeps a snapshot, and provisioned concurrency its minimum."""
    assert capacity_items(environment(), PRICES) == ()
    snapstart = environment(cold_start={"kind": "snapstart"})
    assert usd(capacity_items(snapstart, PRICES)) == {"snapshot": 7.91}
    provisioned = environment(cold_start={"kind": "provisioned", "minimum": 3})
    assert usd(capacity_items(provisioned, PRICES)) == {"provisioned concurrency": 52.56}


def test_a_schedule_changes_what_is_kept():
    """The highest minimum of the schedule is what the budget allows for."""
    entries = [
        {"at": "cron(0 8 ? * MON-FRI *)", "minimum": 5, "maximum": 10},
        {"at": "cron(0 18 ? * MON-FRI *)", "minimum": 1, "maximum": 10},
    ]
    scheduled = environment(cold_start={"kind": "provisioned", "schedule": entries})
    always_on = environment(cold_start={"kind": "provisioned"})
    ratio = capacity_items(scheduled, PRICES)[0].usd / capacity_items(always_on, PRICES)[0].usd
    assert ratio == pytest.approx(5)


def test_the_default_budget_is_20_dollars_and_one_and_a_half_times_what_runs():
    """Rounded up to $5."""
    assert default_budget(environment(), PRICES) == 20
    large = environment(cold_start={"kind": "provisioned", "minimum": 10, "maximum": 20})
    assert default_budget(large, PRICES) == 285  # 20 + 1.5 x 175.24


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
    assert default_budget(served, PRICES) == 140  # 20 + 1.5 x 79.94


def test_the_file_of_production_says_what_its_minimums_cost():
    """Its comment has the only price outside the table, besides the pages of the docs."""
    folder = Path(__file__).resolve().parents[1] / "fixtures" / "environments"
    production = load_environment("production", folder=folder, licensed=False)
    # From 7:30 to 19:00 on five of seven days, it has 5 instead of 2.
    mean = 2 + 3 * 5 * 11.5 / (7 * 24)
    gb_seconds = mean * production.function.memory_mb / 1024 * HOURS * 3600
    usd = gb_seconds * PRICES["lambda_provisioned"].usd
    assert f"${usd:.0f} a month in us-east-1" in (folder / "production.toml").read_text()
