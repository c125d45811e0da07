"""Test the price tables: every price has a unit, a date and a source."""

import json
import re
from datetime import date

import pytest

from embedding_kit.prices import hosted_models, load_prices, read_file

LINES, REGIONS = read_file()["lines"], sorted(read_file()["regions"])


def test_us_east_1_has_all_lines():
    """Its prices stand in for those that the table of another region lacks."""
    prices = load_prices()
    assert prices.lines.keys() == LINES.keys()
    assert not prices.assumed


@pytest.mark.parametrize("region", REGIONS)
def test_every_price_has_a_source_and_a_date(region):
    """The source is AWS's price list or a page of AWS."""
    prices = load_prices(region)
    assert len(prices.lines) > 20
    for price in prices.lines.values():
        assert re.match(r"AWS price list, A\w+|https://(docs\.)?aws\.amazon\.com/", price.source)
        assert date(2026, 8, 1) <= price.date
        # Only a tier that is free to each account may cost nothing, and only the first.
        assert all(tier.usd > 0 for tier in price.tiers[price.tiers[0].usd == 0 :])


def test_every_hosted_price_has_a_source_and_a_date():
    """Amazon Bedrock, OpenAI, Voyage AI and Google."""
    models = hosted_models()
    assert {model.name.split()[0] for model in models} == {"Bedrock", "OpenAI", "Voyage", "Google"}
    assert all(re.match(r"https://.+, as recorded by ", model.source) for model in models)
    assert all(model.date >= date(2026, 9, 1) for model in models)


def test_another_region_has_its_own_prices_and_takes_the_rest_from_us_east_1(tmp_path):
    """The lines that the table lacks are named."""
    content = read_file()
    dearer = content["regions"]["us-east-1"]["dashboard"] | {"usd": 4}
    file = tmp_path / "prices.json"
    regions = content["regions"] | {"eu-central-1": {"dashboard": dearer}}
    file.write_text(json.dumps(content | {"regions": regions}))
    frankfurt, virginia = load_prices("eu-central-1", file=file), load_prices(file=file)
    assert frankfurt["dashboard"].usd == 4
    assert frankfurt["key"] == virginia["key"]
    assert frankfurt.assumed == LINES.keys() - {"dashboard"}


def test_a_region_without_a_table_takes_all_from_us_east_1():
    """And says so for each line."""
    assert load_prices("af-south-1").assumed == LINES.keys()


def test_usage_is_priced_tier_by_tier():
    """Duration above 7.5 billion GB-seconds a month is cheaper."""
    duration = load_prices()["lambda_duration"]
    assert duration.total(7.5e9) == pytest.approx(7.5e9 * 0.0000133334)
    both_tiers = 7.5e9 * 0.0000133334 + 0.5e9 * 0.0000120001
    assert duration.total(8e9) == pytest.approx(both_tiers)
    assert duration.total(20e9) > duration.total(18.75e9)
    assert duration.total(0) == 0
