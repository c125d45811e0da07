"""The forecast as text and as JSON, and numbers as people write them."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from embedding_kit.prices import DEFAULT_REGION, HostedModel, Prices
from embedding_kit.settings import Provisioned
from operations.cost.bill import FREE
from operations.cost.forecast import Forecast
from operations.cost.ways import REQUESTS_PER_SECOND, Bill, usd

_WIDTH = 44
#: From so few requests a month on, another way costs less at any traffic.
_LEAST = 1e3
#: Prices older than this are likely to be wrong.
_OLD_DAYS = 180
#: More requests than this beyond the provisioned concurrency are worth a note.
_SPILLOVER = 0.01
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([kMG]?)")


def as_table(result: Forecast) -> str:
    """Return the table."""
    return "\n".join(_lines(result)) + "\n"


def _answer(result: Forecast) -> Iterator[str]:
    """Yield what most readers want to know: the sum, the cheapest other way, the break-even."""
    own = usd(result.options[result.chosen])
    rest = result.usd - own
    yield (
        f"{result.environment.name} costs ${result.usd:,.2f} a month: ${own:,.2f} for requests, "
        f"${rest:,.2f} for the rest."
    )
    others = {
        name: usd(bill)
        for name, bill in result.options.items()
        if name != result.chosen and name in result.break_even
    }
    name = min(others, key=others.__getitem__)
    yield f"Cheapest alternative for the requests: {name}, ${others[name]:,.2f}."
    points = {name: point for name, point in result.break_even.items() if point is not None}
    if points:
        first = min(points, key=points.__getitem__)
        where = f"from {number(points[first])} requests a month" if points[first] > _LEAST else ""
        yield f"Break-even: {first} costs less {where or 'at any traffic'}."
    else:
        yield "Break-even: none; no alternative costs less at any traffic."


def _lines(result: Forecast) -> Iterator[str]:
    yield from _answer(result)
    yield ""
    environment, traffic = result.environment, result.scenario.traffic
    passages = f"{traffic.passages:,} pairs of " if traffic.passages else ""
    yield (
        f"{environment.name} in {result.prices.region}: {environment.model.name}, "
        f"{environment.function.memory_mb:,} MB"
    )
    yield (
        f"{number(traffic.requests)} requests a month of {passages}{traffic.tokens:,} tokens, "
        f"{traffic.shape}; {1000 * result.scenario.seconds:,.1f} ms each on Lambda"
    )
    yield f"times: {result.speed}"
    yield ""
    yield f"{'US dollars a month':{_WIDTH}}{'':>10}  cheaper from (requests)"
    for name, bill in result.options.items():
        own = name == result.chosen
        after = "this environment" if own else _point(result, name)
        yield f"{_amount(name, usd(bill))}  {after}".rstrip()
    yield ""
    yield "This environment"
    free = {item.name: item for item in result.free}
    for item in result.own:
        if item.usd:
            note = f"  {FREE[item.unit]} free in an account" if item.name in free else ""
            yield _amount(f"  {item.name}", item.usd) + note
    yield _amount("  sum", result.usd)
    if free:
        least = result.usd + usd(result.free)
        yield _amount("  sum, if nothing else uses what is free", least)
    if environment.budget and environment.budget.monthly_usd:
        yield _amount("  budget", environment.budget.monthly_usd)
    yield ""
    yield from _cold_starts(result)


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
    for minutes, share in result.cold_starts.items():
        yield f"  {percent(share)} of requests with an idle timeout of {minutes} minutes"
    if isinstance(result.environment.cold_start, Provisioned):
        kept, beyond = result.scenario.provisioned
        yield (
            f"provisioned concurrency: {kept:.1f} on average; "
            f"{percent(beyond)} of requests are beyond it"
        )
        if beyond > _SPILLOVER:
            yield (
                f"  AWS serves {REQUESTS_PER_SECOND} requests a second for each provisioned "
                "environment; raise the maximum, or lower target_utilization"
            )


def price_notes(prices: Prices, models: Sequence[HostedModel], *, today: date) -> Iterator[str]:
    """Yield what to know about the prices: assumed ones and old ones."""
    if prices.assumed:
        count, total = len(prices.assumed), len(prices.lines)
        yield (
            f"{count} of {total} prices are those of {DEFAULT_REGION}, for the file has none of "
            f"{prices.region}: scripts/cost --refresh --region {prices.region}"
        )
    old = sorted(
        name for name, price in prices.lines.items() if (today - price.date).days > _OLD_DAYS
    )
    if old:
        yield (
            f"warning: {len(old)} prices are older than {_OLD_DAYS} days "
            f"({', '.join(old[:3])}{', ...' if len(old) > 3 else ''}): scripts/cost --refresh"
        )
    stale = [model.name for model in models if (today - model.date).days > _OLD_DAYS]
    if stale:
        yield (
            f"warning: prices of hosted APIs are older than {_OLD_DAYS} days; edit "
            f"constructs/embedding_kit/prices.json: {', '.join(stale)}"
        )


def as_json(result: Forecast) -> dict[str, Any]:
    """Return the forecast for programs. All amounts are US dollars a month."""
    traffic = result.scenario.traffic
    kept, beyond = result.scenario.provisioned
    return {
        "environment": result.environment.name,
        "region": result.prices.region,
        "traffic": {
            name: getattr(traffic, name) for name in ("requests", "tokens", "passages", "shape")
        },
        "seconds": result.scenario.seconds,
        "times": result.speed,
        "chosen": result.chosen,
        "usd": result.usd,
        "options": {
            name: {"usd": usd(bill), "items": _items(bill)} for name, bill in result.options.items()
        },
        "added": _items(result.added),
        "free": _items(result.free),
        "break_even_requests": dict(result.break_even),
        "cold_start_share": dict(result.cold_starts),
        "provisioned": {"average": kept, "beyond": beyond},
        "prices": {
            name: {"usd": price.usd, "date": price.date.isoformat(), "source": price.source}
            for name, price in result.prices.lines.items()
        },
    }


def _items(bill: Bill) -> list[dict[str, Any]]:
    return [
        {"name": item.name, "amount": item.amount, "unit": item.unit, "usd": item.usd}
        for item in bill
    ]


def parse_number(text: str) -> float:
    """Parse a positive number such as 3M, 250k or 1200.

    Raises:
        ValueError: The text is no such number.
    """
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
