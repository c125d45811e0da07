"""List prices, each with its date and source: AWS's by region, and those of hosted APIs.

All are in `prices.json`, whose `lines` name the unit of each price. Those of Lambda and Fargate are
for ARM64.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

#: The region with all lines. Its prices replace those that another region lacks.
DEFAULT_REGION = "us-east-1"
FILE = Path(__file__).with_suffix(".json")
#: Hours of a month.
HOURS = 730


@dataclass(frozen=True, slots=True)
class Tier:
    """The price of usage up to an amount a month."""

    #: The tier's end in the line's unit; infinite in the last tier.
    end: float
    usd: float


@dataclass(frozen=True, slots=True)
class Price:
    """One line's list price in US dollars, before any discount or free tier."""

    #: The counted unit, such as `GB-second`.
    unit: str
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
        lines: The price of each line by its name.
        assumed: The names of lines with the price of us-east-1, because the file has no price of
            the region.
    """

    region: str
    lines: Mapping[str, Price]
    assumed: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Price:
        return self.lines[name]


@dataclass(frozen=True, slots=True)
class HostedModel:
    """One model of a hosted API."""

    #: Provider and model.
    name: str
    #: US dollars for a million tokens of input.
    usd_per_million_tokens: float
    #: The day the price was read.
    date: date
    source: str


@dataclass(frozen=True, slots=True)
class LineItem:
    """One line of a monthly bill."""

    name: str
    #: The amount in `unit` a month.
    amount: float
    unit: str
    usd: float


def load_prices(region: str = DEFAULT_REGION, *, file: Path = FILE) -> Prices:
    """Return a region's prices; those of us-east-1 where the file has none of the region."""
    content = read_file(file)
    default = content["regions"][DEFAULT_REGION]
    own = content["regions"].get(region, {})
    lines = {
        name: parse_price(line["unit"], own.get(name) or default[name])
        for name, line in content["lines"].items()
    }
    return Prices(region, lines, frozenset(default.keys() - own.keys()))


def hosted_models() -> tuple[HostedModel, ...]:
    """Return the models of hosted APIs, in the file's order."""
    return tuple(
        HostedModel(name, entry["usd"], date.fromisoformat(entry["date"]), entry["source"])
        for name, entry in read_file()["hosted"].items()
    )


@cache
def read_file(file: Path = FILE) -> dict[str, dict[str, Any]]:
    """Return the file's content: `lines`, `hosted`, and the prices of `regions`."""
    content: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return content


def parse_price(unit: str, value: Mapping[str, Any]) -> Price:
    """Parse a price of the file: `usd` is a number, or a list of tiers `[end, usd]`.

    The last tier's end is null.
    """
    usd = value["usd"]
    pairs = usd if isinstance(usd, list) else [[None, usd]]
    tiers = tuple(
        Tier(math.inf if end is None else float(end), float(price)) for end, price in pairs
    )
    return Price(unit, tiers, date.fromisoformat(value["date"]), value["source"])


def priced(prices: Prices, line: str, name: str, amount: float) -> LineItem:
    """Return the item of a bill for an amount in the unit of a price's line."""
    price = prices[line]
    return LineItem(name, amount, price.unit, price.total(amount))
