"""Write the file of AWS's prices, one line for each price."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from embedding_kit.prices import Price

__all__ = ["format_prices", "write_prices"]


def format_prices(regions: Mapping[str, Mapping[str, Price]]) -> str:
    """Return the file's content."""
    tables = []
    for region, lines in regions.items():
        rows = ",\n".join(
            f"    {json.dumps(name)}: {_price(price)}" for name, price in lines.items()
        )
        tables.append(f"  {json.dumps(region)}: {{\n{rows}\n  }}")
    return "{\n" + ",\n".join(tables) + "\n}\n"


def write_prices(file: Path, regions: Mapping[str, Mapping[str, Price]]) -> None:
    """Replace the file in one step, so that an interruption leaves the old or the new one."""
    partial = file.with_suffix(".partial")
    partial.write_text(format_prices(regions), encoding="utf-8")
    partial.replace(file)


def _price(price: Price) -> str:
    tiers = [(tier.end, _plain(tier.usd)) for tier in price.tiers]
    if len(tiers) == 1:
        usd = tiers[0][1]
    else:
        ends = ["null" if math.isinf(end) else _plain(end) for end, _ in tiers]
        usd = ", ".join(f"[{end}, {usd}]" for end, (_, usd) in zip(ends, tiers, strict=True))
        usd = f"[{usd}]"
    day, source = price.date.isoformat(), json.dumps(price.source)
    return f'{{"usd": {usd}, "date": "{day}", "source": {source}}}'


def _plain(value: float) -> str:
    """Format a number without an exponent, with the ten decimals of AWS's price list."""
    return f"{value:.10f}".rstrip("0").rstrip(".")
