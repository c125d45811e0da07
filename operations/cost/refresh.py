"""`scripts/cost --refresh`: read the prices of a region again, and say what changed."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
from tqdm import tqdm

from embedding_kit.prices import LINES, Price
from embedding_kit.prices.table import DEFAULT_REGION, FILE, read_regions
from operations.cost.errors import CostError
from operations.cost.price_file import write_prices
from operations.cost.price_list import OfferPrices, offer_lines, read_offer

__all__ = ["refresh"]

#: AWS's public files: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
_ADDRESS = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/{offer}/current/{region}/index.csv"
)
#: A smaller relative change is one of the tenth decimal, which AWS rounds to.
_ROUNDING = 1e-5


def refresh(
    region: str,
    *,
    file: Path = FILE,
    client: httpx.Client | None = None,
    progress: bool = False,
) -> Iterator[str]:
    """Read a region's prices from AWS, write them into the file, and yield what changed.

    The file is written after all of AWS's files are read: a failure leaves it as it was.

    Args:
        region: The region.
        file: The price file.
        client: The HTTP client; a new one if None.
        progress: Whether to draw a progress bar on standard error.

    Raises:
        CostError: A file cannot be read.
    """
    regions = dict(read_regions(file))
    before = regions.get(region, {})
    after = dict(before)
    notes: list[str] = []
    with client or httpx.Client(timeout=60, follow_redirects=True) as connected:
        for offer, lines in offer_lines().items():
            address = _ADDRESS.format(offer=offer, region=region)
            rows = _download(connected, address, offer=offer, region=region, progress=progress)
            found = read_offer(rows, offer=offer, region=region, lines=lines)
            after.update(found.found)
            notes += _notes(found, offer)
    ordered = {name: after[name] for name in LINES if name in after}
    yield from _changes(before, ordered)
    yield from notes
    by_hand = [name for name, line in LINES.items() if not line.offer]
    yield f"not in AWS's price list, edited by hand in {file.name}: {', '.join(by_hand)}"
    regions[region] = ordered
    others = {name: lines for name, lines in sorted(regions.items()) if name != DEFAULT_REGION}
    write_prices(file, {DEFAULT_REGION: regions[DEFAULT_REGION], **others})


def _download(
    client: httpx.Client, address: str, *, offer: str, region: str, progress: bool
) -> Iterator[str]:
    """Yield the lines of a file while it is downloaded."""
    try:
        with client.stream("GET", address) as response:
            if response.status_code != httpx.codes.OK:
                raise CostError(_unreachable(offer, region, f"status {response.status_code}"))
            length = int(response.headers.get("content-length", 0)) or None
            with tqdm(
                total=length, unit="B", unit_scale=True, desc=offer, disable=not progress
            ) as bar:
                done = 0
                for line in response.iter_lines():
                    yield line
                    bar.update(response.num_bytes_downloaded - done)
                    done = response.num_bytes_downloaded
    except httpx.HTTPError as error:
        raise CostError(_unreachable(offer, region, error)) from error


def _unreachable(offer: str, region: str, reason: object) -> str:
    return f"AWS's price list of {offer} in {region} cannot be read: {reason}; nothing was changed"


def _changes(before: Mapping[str, Price], after: Mapping[str, Price]) -> Iterator[str]:
    same = 0
    for name, price in after.items():
        unit = LINES[name].unit
        if name not in before:
            yield f"{name}: new, ${_plain(price.usd)} per {unit}"
            continue
        old = before[name]
        if _equal(old, price):
            same += 1
            continue
        percent = 100 * (price.usd / old.usd - 1)
        tiers = "" if percent else ", in another tier"
        yield (
            f"{name}: ${_plain(old.usd)} to ${_plain(price.usd)} per {unit} "
            f"({percent:+.1f}%{tiers})"
        )
    yield f"{same} prices are unchanged"


def _equal(one: Price, other: Price) -> bool:
    return len(one.tiers) == len(other.tiers) and all(
        a.end == b.end and math.isclose(a.usd, b.usd, rel_tol=_ROUNDING)
        for a, b in zip(one.tiers, other.tiers, strict=True)
    )


def _notes(found: OfferPrices, offer: str) -> Iterator[str]:
    if found.ambiguous:
        yield f"{offer} has several prices, unchanged: {', '.join(found.ambiguous)}"
    if found.missing:
        yield f"{offer} has no price, unchanged: {', '.join(found.missing)}"


def _plain(value: float) -> str:
    text = f"{value:.10f}".rstrip("0")
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals:0<2}"
