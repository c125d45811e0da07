"""Test the writer of the price file."""

import json

from embedding_kit.prices.table import FILE, parse_price
from operations.cost.price_file import format_prices, write_prices


def test_the_file_is_as_the_refresh_writes_it(tmp_path):
    """So that a refresh changes only the lines whose price changed."""
    regions = {
        region: {name: parse_price(value) for name, value in lines.items()}
        for region, lines in json.loads(FILE.read_text()).items()
    }
    assert format_prices(regions) == FILE.read_text(encoding="utf-8")
    write_prices(tmp_path / "aws.json", regions)
    assert (tmp_path / "aws.json").read_text(encoding="utf-8") == FILE.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["aws.json"]
