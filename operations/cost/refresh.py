"""`scripts/cost --refresh`: read a region's prices from AWS's price list, and report changes.

A file of the list is CSV: lines of metadata such as the date of publication, then a heading, then a
row for each tier of each product and term. Format:
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from tqdm import tqdm

from embedding_kit.prices import FILE
from operations.cost import CostError

#: AWS's public files: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
_ADDRESS = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/{offer}/current/{region}/index.csv"
)
#: A region's prefix of a usage type, such as EUC1- or EU-; us-east-1 often has none. The key
#: service writes the region's name.
_PREFIX = r"(?:(?:EU|[A-Z]{2,4}[0-9])-|[a-z]{2}(?:-[a-z]+)+-[0-9]-)?"
_COLUMNS = {"termtype", "startingrange", "endingrange", "priceperunit", "usagetype"}

#: A price of the file: `usd`, `date` and `source`.
Entry = dict[str, Any]
#: A line of the file: `unit`, `offer`, `usage_type` and `operation`.
Line = Mapping[str, str]


def refresh(region: str, *, file: Path = FILE, client: httpx.Client | None = None) -> Iterator[str]:
    """Read a region's prices from AWS, write them into the file, and yield what changed.

    The file is written after all of AWS's files are read: a failure leaves it as it was.
    """
    content = json.loads(file.read_text(encoding="utf-8"))
    lines, regions = content["lines"], content["regions"]
    before = regions.get(region, {})
    after, notes = dict(before), []
    with client or httpx.Client(timeout=60, follow_redirects=True) as connected:
        for offer in sorted({line["offer"] for line in lines.values() if "offer" in line}):
            wanted = {name: line for name, line in lines.items() if line.get("offer") == offer}
            rows = _download(connected, offer, region)
            found = read_offer(rows, offer=offer, region=region, lines=wanted)
            after |= {name: entries[0] for name, entries in found.items() if len(entries) == 1}
            several = [name for name, entries in found.items() if len(entries) > 1]
            if several:
                notes.append(f"{offer} has several prices, unchanged: {', '.join(several)}")
            if missing := [name for name in wanted if name not in found]:
                notes.append(f"{offer} has no price, unchanged: {', '.join(missing)}")
    regions[region] = {name: after[name] for name in lines if name in after}
    yield from _changes(lines, before, regions[region])
    yield from notes
    by_hand = [name for name, line in lines.items() if "offer" not in line]
    yield f"not in AWS's price list, edited by hand in {file.name}: {', '.join(by_hand)}"
    # In one step, so that an interruption leaves the old file or the new one.
    partial = file.with_suffix(".partial")
    partial.write_text(format_prices(content), encoding="utf-8")
    partial.replace(file)


def read_offer(
    rows: Iterable[str], *, offer: str, region: str, lines: Mapping[str, Line]
) -> dict[str, list[Entry]]:
    """Return the prices on demand of each line that a service's CSV file has.

    They are more than one if several products have the same usage type.
    """
    stream = iter(rows)
    heading, published = _read_heading(stream, offer)
    # The file of AmazonEC2 has 300 MB: only rows that may match are parsed.
    usage = re.compile("|".join(re.escape(line["usage_type"]) for line in lines.values()))
    products: dict[tuple[str, str], list[tuple[float, float | None, float]]] = {}
    for row in csv.reader(row for row in stream if usage.search(row)):
        values = dict(zip(heading, row, strict=False))
        name = next((name for name, line in lines.items() if _is(line, values, region)), None)
        # A free tier is that of the account, and not of one function.
        if name and (usd := _plain(values["priceperunit"])):
            end = None if values["endingrange"] == "Inf" else _plain(values["endingrange"])
            tier = (float(values["startingrange"]), end, usd)
            products.setdefault((name, values["sku"]), []).append(tier)
    found: dict[str, list[Entry]] = {}
    for (name, _), tiers in products.items():
        steps = [[end, usd] for _, end, usd in sorted(tiers)]
        price = steps if len(steps) > 1 else tiers[0][2]
        entry = {"usd": price, "date": published, "source": f"AWS price list, {offer}"}
        if entry not in found.setdefault(name, []):
            found[name].append(entry)
    return found


def _plain(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _read_heading(stream: Iterator[str], offer: str) -> tuple[list[str], str]:
    """Read up to the heading; return its columns in lower case without spaces, and the date."""
    metadata: dict[str, str] = {}
    for row in csv.reader(stream):
        if not row:
            continue
        if row[0] == "SKU":
            columns = [column.lower().replace(" ", "") for column in row]
            if metadata.get("OfferCode") != offer or _COLUMNS - set(columns):
                break
            return columns, metadata["Publication Date"][:10]
        metadata[row[0]] = row[1] if len(row) > 1 else ""
    raise CostError(
        f"found: no price list file of {offer}; allowed: the format of AWS's Price List Bulk API"
    )


def _is(line: Line, values: Mapping[str, str], region: str) -> bool:
    return (
        values.get("termtype") == "OnDemand"
        and values.get("currency", "USD") == "USD"
        and values.get("regioncode", region) in {region, ""}
        and line.get("operation", "") in {"", values.get("operation", "")}
        and bool(re.fullmatch(_PREFIX + re.escape(line["usage_type"]), values["usagetype"]))
    )


def _download(client: httpx.Client, offer: str, region: str) -> Iterator[str]:
    try:
        with client.stream("GET", _ADDRESS.format(offer=offer, region=region)) as response:
            response.raise_for_status()
            length = int(response.headers.get("content-length", 0)) or None
            # Without a terminal, no bar is drawn.
            with tqdm(total=length, unit="B", unit_scale=True, desc=offer, disable=None) as bar:
                for line in response.iter_lines():
                    yield line
                    bar.update(response.num_bytes_downloaded - bar.n)
    except httpx.HTTPError as error:
        raise CostError(
            f"AWS's price list of {offer} in {region} cannot be read: {error}; nothing was changed"
        ) from error


def _changes(
    lines: Mapping[str, Line], before: Mapping[str, Entry], after: Mapping[str, Entry]
) -> Iterator[str]:
    same = 0
    for name, entry in after.items():
        old, new = before.get(name, {}).get("usd", "none"), entry["usd"]
        if old == new:
            same += 1
        else:
            yield f"{name}, US dollars per {lines[name]['unit']}: from {old} to {new}"
    yield f"{same} prices are unchanged"


def format_prices(content: Mapping[str, Any], indent: str = "") -> str:
    """Return the file's content: JSON with one line for each line, price and hosted API."""
    if not any(isinstance(value, dict) for value in content.values()):
        return json.dumps(content)
    inner = f"{indent}  "
    entries = ",\n".join(
        f"{inner}{json.dumps(name)}: {format_prices(value, inner)}"
        for name, value in content.items()
    )
    text = f"{{\n{entries}\n{indent}}}"
    return text if indent else f"{text}\n"
