"""Line items of a monthly bill."""

from dataclasses import dataclass

from embedding_kit.prices.lines import LINES
from embedding_kit.prices.table import Prices

__all__ = ["HOURS", "LineItem", "priced"]

#: Hours of a month.
HOURS = 730


@dataclass(frozen=True, slots=True)
class LineItem:
    """One line of a bill."""

    name: str
    #: The amount in `unit` a month.
    amount: float
    unit: str
    usd: float


def priced(prices: Prices, line: str, name: str, amount: float, *, after: float = 0) -> LineItem:
    """Price an amount.

    Args:
        prices: The prices.
        line: The price's name in `LINES`.
        name: The item's name.
        amount: The amount in the line's unit.
        after: An amount of the same month that is priced before, and fills the first tiers.
    """
    price = prices[line]
    usd = price.total(after + amount) - price.total(after)
    return LineItem(name, amount, LINES[line].unit, usd)
