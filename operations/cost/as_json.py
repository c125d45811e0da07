"""The forecast as JSON."""

from typing import Any

from embedding_kit.prices import LineItem
from operations.cost.forecast import Forecast

__all__ = ["as_json"]


def as_json(result: Forecast, *, speed: str) -> dict[str, Any]:
    """Return the forecast for programs. All amounts are US dollars a month.

    Args:
        result: The forecast.
        speed: Where the times come from, in words.
    """
    traffic, cold = result.scenario.traffic, result.cold_starts
    return {
        "environment": result.environment.name,
        "region": result.prices.region,
        "traffic": {
            "requests": traffic.requests,
            "tokens": traffic.tokens,
            "shape": traffic.shape,
        },
        "seconds": result.scenario.seconds,
        "times": speed,
        "chosen": result.chosen,
        "usd": result.usd,
        "options": {
            option.name: {"usd": option.usd, "items": [_item(item) for item in option.items]}
            for option in result.options
        },
        "added": [_item(item) for item in result.added],
        "free": [_item(item) for item in result.free],
        "break_even_requests": dict(result.break_even),
        "cold_start_share": {
            "lowest": cold.lowest,
            "recent": cold.recent,
            "highest": cold.highest,
            "method": cold.method,
        },
        "provisioned": {"average": result.kept, "beyond": result.beyond},
        "prices": {
            name: {"usd": price.usd, "date": price.date.isoformat(), "source": price.source}
            for name, price in result.prices.lines.items()
        },
    }


def _item(item: LineItem) -> dict[str, Any]:
    return {"name": item.name, "amount": item.amount, "unit": item.unit, "usd": item.usd}
