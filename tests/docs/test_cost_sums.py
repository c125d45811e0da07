"""The sums in the prose of the pages are those that are computed."""

from embedding_kit.environment_file import load_environment
from embedding_kit.prices import hosted_models, load_prices
from operations.cost.bill import METRICS
from operations.cost.forecast import forecast
from operations.cost.ways import ON_DEMAND, usd
from operations.cost.workload import Month
from tools.cost import resources_of

from .pages import ROOT

README, COST = (
    " ".join((ROOT / page).read_text("utf-8").split()) for page in ("README.md", "docs/cost.md")
)


def test_the_first_page_says_what_the_command_computes():
    """The shipped environments, at the traffic that it names; and the page on costs, a start."""
    idle, dev, staging, production = (
        forecast(
            load_environment(name, folder=ROOT / "environments", licensed=False),
            resources_of,
            load_prices(),
            hosted_models(),
            Month(requests=requests, tokens=128),
        )
        for name, requests in (("dev", 1), ("dev", 1e6), ("staging", 3e6), ("production", 3e6))
    )
    standing = idle.usd - METRICS * load_prices()["metric"].usd
    assert f"**${standing:.2f}** without requests, **${dev.usd:.2f}** with a million" in README
    alone = usd(staging.options[ON_DEMAND])
    assert f"**${staging.usd:.2f}** with 3 million, of which ${alone:.2f} are for Lambda" in README
    assert f"is {1000 * staging.scenario.init_seconds:.0f} ms on that machine" in COST
    assert f"kept warm: **${production.usd:.2f}** with 3 million" in README


def test_the_page_about_costs_counts_the_metrics_that_are_billed():
    """$0.30 each a month."""
    dollars = METRICS * load_prices()["metric"].usd
    assert f"{METRICS} custom metrics with one version, API and status cost ${dollars:.2f}" in COST
