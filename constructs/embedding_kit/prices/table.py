"""AWS's list prices of one region, from `aws.json`."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from embedding_kit.prices.lines import LINES

__all__ = [
    "DEFAULT_REGION",
    "FILE",
    "Price",
    "Prices",
    "Tier",
    "load_prices",
    "parse_price",
    "read_regions",
]

#: The region with all lines. Its prices stand in for those that another region's table lacks.
DEFAULT_REGION = "us-east-1"
FILE = Path(__file__).with_name("aws.json")


@dataclass(frozen=True, slots=True)
class Tier:
    """The price of usage up to an amount a month."""

    #: The tier's end in the line's unit; infinite in the last tier.
    end: float
    usd: float


@dataclass(frozen=True, slots=True)
class Price:
    """One line's list price in US dollars, before any discount or free tier."""

    tiers: tuple[Tier, ...]
    #: The day AWS published it, or the day it was read.
    date: date
    source: str

    @property
    def usd(self) -> float:
        """The price of one unit in the first tier of a month."""
        return self.tiers[0].usd

    def total(self, amount: float) -> float:
        """Return US dollars for an amount in one month, tier by tier."""
        total = start = 0.0
        for tier in self.tiers:
            total += max(0.0, min(amount, tier.end) - start) * tier.usd
            start = tier.end
        return total


@dataclass(frozen=True, slots=True)
class Prices:
    """The list prices of one region.

    Attributes:
        region: The region.
        lines: The price of each line by its name in `LINES`.
        assumed: The names of lines whose price is that of us-east-1, because the table has no
            price of the region.
    """

    region: str
    lines: Mapping[str, Price]
    assumed: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Price:
        return self.lines[name]

    def older_than(self, days: int, *, today: date) -> Iterator[str]:
        """Yield the names of lines whose price is older than so many days."""
        for name, price in self.lines.items():
            if (today - price.date).days > days:
                yield name


def load_prices(region: str = DEFAULT_REGION, *, file: Path = FILE) -> Prices:
    """Return a region's prices; those of us-east-1 where the file has none of the region.

    Args:
        region: An AWS region.
        file: The price file.
    """
    regions = read_regions(file)
    default = regions[DEFAULT_REGION]
    own = regions.get(region, {})
    return Prices(region, {**default, **own}, frozenset(default.keys() - own.keys()))


@cache
def read_regions(file: Path = FILE) -> dict[str, dict[str, Price]]:
    """Return the prices of all regions of the file, by region and the line's name."""
    regions = json.loads(file.read_text(encoding="utf-8"))
    return {
        region: {name: parse_price(value) for name, value in lines.items() if name in LINES}
        for region, lines in regions.items()
    }


def parse_price(value: Mapping[str, Any]) -> Price:
    """Parse a price of the file: `usd` is a number, or a list of tiers `[end, usd]`.

    The last tier's end is null.
    """
    usd = value["usd"]
    pairs = usd if isinstance(usd, list) else [[None, usd]]
    tiers = tuple(
        Tier(math.inf if end is None else float(end), float(price)) for end, price in pairs
    )
    return Price(tiers, date.fromisoformat(value["date"]), value["source"])
