"""The forecast as an SVG: what each way costs now, and how that changes with the traffic."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from embedding_kit.prices import HostedModel
from operations.cost.forecast import Forecast
from operations.cost.lambda_options import ON_DEMAND, PROVISIONED, SNAPSTART
from operations.cost.numbers import dollars, number, percent
from operations.cost.option import Option
from operations.cost.options import all_options
from operations.cost.svg import STYLE, spread, text

__all__ = ["as_svg"]

_WIDTH, _MARGIN = 980, 24
_TOP = 136
_ROW = 24
_NAMES, _AMOUNTS = 280, 90
_CURVES_HEIGHT = 330
_LABELS = 250
#: The curves reach from a hundredth to a hundred times the traffic.
_FACTOR = 100
_POINTS = 41
#: The least dollars that are drawn.
_LEAST = 0.1
_KINDS = {"lambda": "Lambda", "server": "servers", "hosted": "hosted APIs"}


def as_svg(result: Forecast, models: Sequence[HostedModel]) -> str:
    """Return the picture, for light and dark backgrounds.

    Args:
        result: The forecast.
        models: The hosted APIs.
    """
    bars = sorted(_compared(result), key=lambda option: option.usd)
    curves_top = _TOP + len(bars) * _ROW + 76
    height = curves_top + _CURVES_HEIGHT + 58 + 22 * len(list(_facts(result)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(_title(result))}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
        *_head(result),
        *_bars(result, bars),
        *_curves(result, models, curves_top),
        *(
            text(_MARGIN, height - 14 - 22 * place, fact)
            for place, fact in enumerate(reversed(list(_facts(result))))
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(result: Forecast) -> str:
    return f"{result.environment.name} costs about ${result.usd:,.0f} a month"


def _head(result: Forecast) -> Iterator[str]:
    traffic, own = result.scenario.traffic, result.own
    added = result.usd - own.usd
    yield text(_MARGIN, 40, _title(result), kind="title")
    yield text(
        _MARGIN,
        64,
        f"${dollars(own.usd)} for {own.name}, and ${dollars(added)} for logs, metrics, alarms and "
        "the rest",
    )
    yield text(
        _MARGIN,
        84,
        f"{number(traffic.requests)} requests a month of {traffic.tokens:,} tokens, "
        f"{traffic.shape} · list prices of {result.prices.region}",
        kind="quiet",
    )
    yield text(_MARGIN, 120, "Ways to serve it, without logs, metrics and alarms", kind="strong")


def _bars(result: Forecast, bars: Sequence[Option]) -> Iterator[str]:
    room = _WIDTH - 2 * _MARGIN - _NAMES - _AMOUNTS
    longest = max(option.usd for option in bars) or 1.0
    for place, option in enumerate(bars):
        own = option.name == result.chosen
        y = _TOP + place * _ROW
        length = max(1.0, option.usd / longest * room)
        kind = "own" if own else option.kind
        weight = "strong" if own else ""
        x = _MARGIN + _NAMES
        yield text(x - 10, y + 16, option.name, kind=weight, anchor="end")
        yield f'<rect class="{kind}" x="{x}" y="{y + 4}" width="{length:.1f}" height="16" rx="2"/>'
        yield text(x + length + 8, y + 16, f"${dollars(option.usd)}", kind=weight)
    y, left = _TOP + len(bars) * _ROW + 14, _MARGIN + _NAMES
    for kind, name in {"own": "this environment", **_KINDS}.items():
        yield f'<rect class="{kind}" x="{left}" y="{y}" width="12" height="12" rx="2"/>'
        yield text(left + 18, y + 11, name, kind="quiet")
        left += 46 + 7 * len(name)


def _curves(result: Forecast, models: Sequence[HostedModel], top: float) -> Iterator[str]:
    now = result.scenario.traffic.requests
    low, high = math.log10(now / _FACTOR), math.log10(now * _FACTOR)
    left, right = _MARGIN + 60, _WIDTH - _MARGIN - _LABELS
    requests = [10 ** (low + (high - low) * step / (_POINTS - 1)) for step in range(_POINTS)]
    names = _drawn(result)
    costs: dict[str, list[float]] = {name: [] for name in names}
    for amount in requests:
        for option in all_options(result.prices, models, result.scenario.at(amount)):
            if option.name in costs:
                costs[option.name].append(max(option.usd, _LEAST))
    floor = math.floor(math.log10(min(map(min, costs.values()))))
    ceiling = math.ceil(math.log10(max(map(max, costs.values()))))

    def across(amount: float) -> float:
        return left + (math.log10(amount) - low) / (high - low) * (right - left)

    def down(usd: float) -> float:
        span = (math.log10(usd) - floor) / (ceiling - floor)
        return top + 26 + (1 - span) * (_CURVES_HEIGHT - 26)

    bottom = top + _CURVES_HEIGHT
    yield text(_MARGIN, top, "If the traffic changes: US dollars a month", kind="strong")
    for power in range(floor, ceiling + 1):
        y = down(10.0**power)
        yield f'<path class="grid" d="M{left} {y:.1f}H{right}"/>'
        label = f"${number(10.0**power)}" if power >= 0 else f"${10.0**power:.2f}"
        yield text(left - 8, y + 4, label, kind="quiet", anchor="end")
    for power in range(math.ceil(low), math.floor(high) + 1):
        x = across(10.0**power)
        yield f'<path class="grid" d="M{x:.1f} {top + 26:.1f}V{bottom:.1f}"/>'
        yield text(x, bottom + 18, number(10.0**power), kind="quiet", anchor="middle")
    yield text((left + right) / 2, bottom + 36, "requests a month", kind="quiet", anchor="middle")
    yield f'<path class="now" d="M{across(now):.1f} {top + 26:.1f}V{bottom:.1f}"/>'
    yield text(across(now) + 6, top + 40, f"now: {number(now)}", kind="strong")
    places = spread([down(costs[name][-1]) for name in names], gap=17, low=top + 30, high=bottom)
    for name, kind, place in zip(names, names.values(), places, strict=True):
        # A line starts where it rises above the least amount.
        first = sum(usd <= _LEAST for usd in costs[name])
        pairs = [*zip(requests, costs[name], strict=True)][min(first, _POINTS - 2) :]
        points = " ".join(f"{across(amount):.1f},{down(usd):.1f}" for amount, usd in pairs)
        yield f'<polyline class="line-{kind}" points="{points}"/>'
        end = down(costs[name][-1])
        yield f'<path class="line-{kind} thin" d="M{right} {end:.1f}L{right + 14} {place:.1f}"/>'
        weight = "strong" if kind == "own" else ""
        yield text(right + 19, place + 4, name, kind=weight)


def _drawn(result: Forecast) -> dict[str, str]:
    """Return the options of the curves, with their kinds: one of each sort."""
    names = [ON_DEMAND, SNAPSTART, PROVISIONED]
    servers = [o for o in result.options if o.kind == "server" and "load balancer" in o.name]
    names += [servers[0].name, min(servers[1:], key=lambda option: option.usd).name]
    hosted = sorted(
        (o for o in result.options if o.kind == "hosted"), key=lambda option: option.usd
    )
    names += [hosted[0].name, hosted[-1].name] if hosted else []
    kinds = {option.name: option.kind for option in result.options}
    return {name: "own" if name == result.chosen else kinds[name] for name in names}


def _facts(result: Forecast) -> Iterator[str]:
    cold = result.cold_starts
    shares = (
        percent(cold.highest)
        if cold.method == "measured"
        else f"{percent(cold.lowest)} to {percent(cold.highest)}"
    )
    yield f"Cold starts: {shares} of requests meet one on demand ({cold.method})."
    cheapest = min(_compared(result), key=lambda option: option.usd)
    yield f"Cheapest for this traffic: {cheapest.name}, ${dollars(cheapest.usd)} a month."
    later = sorted(
        (point, name)
        for name, point in result.break_even.items()
        if point is not None and point > result.scenario.traffic.requests
    )
    if later:
        point, name = later[0]
        yield f"From {number(point)} requests a month on, {name} costs less than {result.chosen}."


def _compared(result: Forecast) -> list[Option]:
    """Return the options without the free tier, which other functions may use up."""
    return [o for o in result.options if not o.name.startswith(f"{ON_DEMAND},")]
