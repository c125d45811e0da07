"""List prices, each with its date and source: AWS's by region, and those of hosted APIs.

`scripts/cost --refresh` rewrites `aws.json` from AWS's price list. No API publishes the prices in
`hosted.json`; they are edited by hand.
"""

from embedding_kit.prices.hosted import HostedModel, hosted_models
from embedding_kit.prices.line_items import HOURS, LineItem, priced
from embedding_kit.prices.lines import LINES, PriceLine
from embedding_kit.prices.table import DEFAULT_REGION, Price, Prices, Tier, load_prices

__all__ = [
    "DEFAULT_REGION",
    "HOURS",
    "LINES",
    "HostedModel",
    "LineItem",
    "Price",
    "PriceLine",
    "Prices",
    "Tier",
    "hosted_models",
    "load_prices",
    "priced",
]
