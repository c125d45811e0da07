"""The sums in the prose of the pages are those that are computed."""

from embedding_kit.environment_file import load_environment
from embedding_kit.prices import hosted_models, load_prices
from operations.cost.bill import METRICS
from operations.cost.forecast import forecast
from operations.cost.ways import ON_DEMAND, usd
from operations.cost.workload import Month
from tools.cost import resources_of

from .pages import ROOT

README = " ".join((ROOT / "README.md").read_text("utf-8").split())


def test_the_first_page_says_what_the_command_computes():
    """Both shipped environments, at the traffic that the page names."""
    month = Month(requests=3e6, tokens=128)
    staging, production = (
        forecast(
            load_environment(name, folder=ROOT / "environments", licensed=False),
            resources_of,
            load_prices(),
            hosted_models(),
            month,
        )
        for name in ("staging", "production")
    )
    alone = usd(staging.options[ON_DEMAND])
    assert f"**${alone:.2f}** for Lambda, and **${staging.usd:.2f}** in all with alarms" in README
    assert f"keeps 2–5 Lambda environments warm: ${production.usd:.2f}." in README


def test_the_page_about_costs_counts_the_metrics_that_are_billed():
    """$0.30 each a month."""
    page = " ".join((ROOT / "docs" / "cost.md").read_text("utf-8").split())
    dollars = METRICS * load_prices()["metric"].usd
    assert f"{METRICS} custom metrics with one version, API and status cost ${dollars:.2f}" in page
