"""The forecast as text and as JSON, and numbers as people write them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from datetime import date
from typing import Any

from embedding_kit.prices import DEFAULT_REGION, HostedModel, Prices
from embedding_kit.settings import Provisioned
from operations.cost.bill import FREE
from operations.cost.forecast import Forecast
from operations.cost.ways import usd

_WIDTH = 44
#: From so few requests a month on, another way costs less at any traffic.
_LEAST = 1e3
#: Prices older than this are likely to be wrong.
_OLD_DAYS = 180
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([kMG]?)")


def as_table(result: Forecast) -> str:
    """Return the answer, the price of each way to serve, and the environment's own bill."""
    return "\n".join(
        (*_answer(result), "", *_ways(result), "", *_own(result), *_cold_starts(result))
    )


def _answer(result: Forecast) -> Iterator[str]:
    """Yield what most readers want to know: the sum, the cheapest other way, the break-even."""
    own = usd(result.options[result.chosen])
    yield (
        f"{result.environment.name} costs ${result.usd:,.2f} a month: ${own:,.2f} for requests, "
        f"${result.usd - own:,.2f} for the rest."
    )
    dollars, name = min((usd(result.options[name]), name) for name in result.break_even)
    yield f"Cheapest alternative for the requests: {name}, ${dollars:,.2f}."
    points = [(point, name) for name, point in result.break_even.items() if point is not None]
    if points:
        point, name = min(points)
        where = f"from {number(point)} requests a month" if point > _LEAST else "at any traffic"
        yield f"Break-even: {name} costs less {where}."
    else:
        yield "Break-even: none; no alternative costs less at any traffic."


def _ways(result: Forecast) -> Iterator[str]:
    environment, month = result.environment, result.scenario.month
    passages = f"{month.passages:,} pairs of " if month.passages else ""
    yield (
        f"{environment.name} in {result.prices.region}: {environment.model.name}, "
        f"{environment.function.memory_mb:,} MB"
    )
    yield (
        f"{number(month.requests)} requests a month of {passages}{month.tokens:,} tokens, "
        f"{month.shape}; {1000 * result.scenario.seconds:,.1f} ms each on Lambda"
    )
    yield f"times: {result.speed}"
    yield ""
    yield f"{'US dollars a month':{_WIDTH}}{'':>10}  cheaper from (requests)"
    for name, bill in result.options.items():
        after = "this environment" if name == result.chosen else _point(result, name)
        yield f"{_amount(name, usd(bill))}  {after}".rstrip()


def _own(result: Forecast) -> Iterator[str]:
    yield "This environment"
    free = {item.name for item in result.free}
    for item in (*result.options[result.chosen], *result.added):
        if item.usd:
            note = f"  {FREE[item.unit]} free in an account" if item.name in free else ""
            yield _amount(f"  {item.name}", item.usd) + note
    yield _amount("  sum", result.usd)
    if free:
        least = result.usd + usd(result.free)
        yield _amount("  sum, if nothing else uses what is free", least)
    if result.environment.budget and result.environment.budget.monthly_usd:
        yield _amount("  budget", result.environment.budget.monthly_usd)
    yield ""


def _amount(name: str, dollars: float) -> str:
    """Return a row: cents below $1,000, whole dollars above."""
    return f"{name:{_WIDTH}}{dollars:>10,.{2 if abs(dollars) < 1000 else 0}f}"


def _point(result: Forecast, name: str) -> str:
    if name not in result.break_even:
        return ""
    point = result.break_even[name]
    if point is None:
        return "never"
    return "always" if point <= _LEAST else number(point)


def _cold_starts(result: Forecast) -> Iterator[str]:
    yield "cold starts on demand, if Lambda reuses the most recently used environment:"
    yield f"  {1000 * result.scenario.init_seconds:,.0f} ms of CPU time each, with warm files"
    for minutes, share in result.cold_starts.items():
        yield f"  {percent(share)} of requests with an idle timeout of {minutes} minutes"
    if isinstance(result.environment.cold_start, Provisioned):
        kept, beyond = result.scenario.provisioned
        yield (
            f"provisioned concurrency: {kept:.1f} on average; "
            f"{percent(beyond)} of requests are beyond it"
        )


def price_notes(prices: Prices, models: Sequence[HostedModel], *, today: date) -> Iterator[str]:
    """Yield what to know about the prices: assumed ones and old ones."""
    if prices.assumed:
        yield (
            f"{len(prices.assumed)} of {len(prices.lines)} prices are those of {DEFAULT_REGION}, "
            f"for the file has none of {prices.region}: scripts/cost NAME --refresh"
        )
    dates = {name: price.date for name, price in prices.lines.items()}
    hosted = {model.name: model.date for model in models}
    for what, read, then in (
        ("prices", dates, "scripts/cost NAME --refresh"),
        ("prices of hosted APIs", hosted, "edit constructs/embedding_kit/prices.json"),
    ):
        old = sorted(name for name, day in read.items() if (today - day).days > _OLD_DAYS)
        if old:
            names = f"{', '.join(old[:3])}{', ...' if len(old) > 3 else ''}"
            yield f"warning: {len(old)} {what} are older than {_OLD_DAYS} days ({names}): {then}"


def as_json(result: Forecast) -> dict[str, Any]:
    """Return the forecast for programs. All amounts are US dollars a month."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return values | {
        "environment": result.environment.name,
        "region": result.prices.region,
        "scenario": asdict(result.scenario),
        "seconds": result.scenario.seconds,
        "usd": result.usd,
        "options": {name: [*map(asdict, bill)] for name, bill in result.options.items()},
        "added": [*map(asdict, result.added)],
        "free": [*map(asdict, result.free)],
        "prices": {
            name: {"usd": price.usd, "date": price.date.isoformat(), "source": price.source}
            for name, price in result.prices.lines.items()
        },
    }


def parse_number(text: str) -> float:
    """Parse a positive number such as 3M, 250k or 1200."""
    match = _NUMBER.fullmatch(text.replace(",", "").replace("_", ""))
    if match is None or float(match[1]) == 0:
        raise ValueError(f"found: {text}; allowed: a positive number such as 3M, 250k or 1200")
    return float(match[1]) * _UNITS[match[2]]


def number(value: float) -> str:
    """Format an amount with two or three digits and a unit: 3M, 12.5M, 390k."""
    for unit in ("G", "M", "k"):
        if value >= _UNITS[unit] * 0.9995:
            scaled = value / _UNITS[unit]
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}"


def percent(share: float) -> str:
    """Format a share with two digits."""
    if 0 < share < 0.0001:
        return "under 0.01%"
    return f"{100 * share:.2g}%" if share < 0.995 else "100%"
