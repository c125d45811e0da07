"""Read AWS's public price list files, one line at a time.

A file is CSV: lines of metadata such as the date of publication, then a heading, then a row for
each tier of each product and term. Format:
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
"""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from embedding_kit.prices import LINES, Price, PriceLine, Tier
from operations.cost.errors import CostError

__all__ = ["OfferPrices", "offer_lines", "read_offer"]

#: A region's prefix of a usage type, such as EUC1- or EU-; us-east-1 often has none. The key
#: service writes the region's name.
_PREFIX = r"(?:(?:EU|[A-Z]{2,4}[0-9])-|[a-z]{2}(?:-[a-z]+)+-[0-9]-)?"
_UNLIMITED = "Inf"


@dataclass(frozen=True, slots=True)
class OfferPrices:
    """The prices of one file.

    Attributes:
        found: The price of each line by its name.
        ambiguous: Lines for which the file has several prices.
        missing: Lines for which it has none.
    """

    found: Mapping[str, Price]
    ambiguous: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(slots=True)
class _Product:
    line: str
    tiers: dict[float, Tier] = field(default_factory=dict)


def offer_lines() -> dict[str, dict[str, PriceLine]]:
    """Return the lines that AWS's price list has, by the service's code and the line's name."""
    offers: dict[str, dict[str, PriceLine]] = {}
    for name, line in LINES.items():
        if line.offer:
            offers.setdefault(line.offer, {})[name] = line
    return offers


def read_offer(
    rows: Iterable[str], *, offer: str, region: str, lines: Mapping[str, PriceLine]
) -> OfferPrices:
    """Find the prices of lines on demand in a file.

    Args:
        rows: The lines of the CSV file.
        offer: The service's code.
        region: The region of the file.
        lines: The lines to find, by their names.

    Raises:
        CostError: It is no price list file of that service.
    """
    stream = iter(rows)
    heading, published = _read_heading(stream, offer)
    patterns = {
        name: (re.compile(_PREFIX + re.escape(line.usage_type)), line.operation)
        for name, line in lines.items()
    }
    # The file of AmazonEC2 has 300 MB: only rows that may match are parsed.
    wanted = re.compile("|".join(re.escape(line.usage_type) for line in lines.values()))
    products: dict[str, _Product] = {}
    for row in csv.reader(row for row in stream if wanted.search(row)):
        values = dict(zip(heading, row, strict=False))
        name = _match(values, patterns, region)
        if name is None:
            continue
        start = float(values["startingrange"])
        end = values["endingrange"]
        tier = Tier(math.inf if end == _UNLIMITED else float(end), float(values["priceperunit"]))
        products.setdefault(values["sku"], _Product(name)).tiers[start] = tier
    return _collect(products.values(), lines, offer, published)


def _read_heading(stream: Iterator[str], offer: str) -> tuple[list[str], date]:
    """Read up to the heading; return its columns in lower case without spaces, and the date."""
    metadata: dict[str, str] = {}
    for row in csv.reader(stream):
        if not row:
            continue
        if row[0] == "SKU":
            columns = [column.lower().replace(" ", "") for column in row]
            needed = {"termtype", "startingrange", "endingrange", "priceperunit", "usagetype"}
            if metadata.get("OfferCode") != offer or needed - set(columns):
                break
            return columns, date.fromisoformat(metadata["Publication Date"][:10])
        metadata[row[0]] = row[1] if len(row) > 1 else ""
    raise CostError(
        f"found: no price list file of {offer}; allowed: the format of AWS's Price List Bulk API"
    )


def _match(
    values: Mapping[str, str], patterns: Mapping[str, tuple[re.Pattern[str], str]], region: str
) -> str | None:
    if values.get("termtype") != "OnDemand" or values.get("currency", "USD") != "USD":
        return None
    if values.get("regioncode", region) not in {region, ""}:
        return None
    for name, (usage_type, operation) in patterns.items():
        if usage_type.fullmatch(values["usagetype"]) and operation in {
            "",
            values.get("operation", ""),
        }:
            return name
    return None


def _collect(
    products: Iterable[_Product], lines: Mapping[str, PriceLine], offer: str, published: date
) -> OfferPrices:
    prices: dict[str, set[tuple[Tier, ...]]] = {}
    for product in products:
        tiers = tuple(tier for _, tier in sorted(product.tiers.items()))
        # A free tier is that of the account, and not of one function.
        paid = tuple(tier for tier in tiers if tier.usd > 0)
        if paid:
            prices.setdefault(product.line, set()).add(paid)
    source = f"AWS price list, {offer}"
    return OfferPrices(
        found={
            name: Price(next(iter(found)), published, source)
            for name, found in prices.items()
            if len(found) == 1
        },
        ambiguous=tuple(name for name, found in prices.items() if len(found) > 1),
        missing=tuple(name for name in lines if name not in prices),
    )
