"""The report as an SVG: latencies over time, the load, and percentiles."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import groupby

from embedding_costs.numbers import number
from embedding_costs.svg import STYLE, text
from embedding_load.outcomes import Kind
from embedding_load.statistics import Second, Spread
from embedding_load.summary import Summary
from embedding_load.table import usd

__all__ = ["as_svg"]

_WIDTH, _MARGIN = 980, 24
_LEFT, _RIGHT = _MARGIN + 62, _WIDTH - _MARGIN - 8
_LATENCY_TOP, _LATENCY_HEIGHT = 128, 230
_LOAD_TOP, _LOAD_HEIGHT = _LATENCY_TOP + _LATENCY_HEIGHT + 84, 130
_BARS_TOP = _LOAD_TOP + _LOAD_HEIGHT + 84
_ROW = 24
_NAMES, _AMOUNTS = 60, 110
#: Times are drawn from a tenth of a millisecond up, on a logarithmic scale.
_LEAST_MS = 0.1
#: The axis of a longer test has minutes.
_LONG_SECONDS = 600.0

Scale = Callable[[float], float]


def as_svg(result: Summary) -> str:
    """Return the picture, for light and dark backgrounds."""
    bars = result.latency.at if result.latency else {}
    height = _BARS_TOP + 16 + _ROW * len(bars) + 24
    box = f"0 0 {_WIDTH} {height}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img">',
        f"<title>{escape(_title(result))}</title>",
        f"<style>{STYLE}path.small, polyline.small {{ stroke-width: 2 }}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
        *_head(result),
        *_latencies(result),
        *_load(result),
        *_percentiles(result.latency),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(result: Summary) -> str:
    if result.latency is None:
        return "No request was answered"
    at = result.latency.at
    return (
        f"{result.plan.rate:g} requests a second: half within {_ms(at['p50'])}, "
        f"99% within {_ms(at['p99'])}"
    )


def _head(result: Summary) -> Iterator[str]:
    yield text(_MARGIN, 40, _title(result), kind="title")
    facts = [
        f"{result.sent:,} requests sent",
        f"{result.cold_starts:,} cold starts",
        f"{result.kinds[Kind.THROTTLED]:,} throttled",
        f"{result.errors:,} errors",
    ]
    if result.cost is not None:
        facts.append(f"about {usd(result.cost.estimate)}, at most {usd(result.cost.bound)}")
    yield text(_MARGIN, 64, " · ".join(facts))
    low, high = result.plan.range
    tokens = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    model = result.endpoint.model
    model = model if len(model) <= 48 else f"{model[:47]}…"
    late = " · the generator fell behind" if result.fell_behind else ""
    yield text(_MARGIN, 84, f"{model} · {result.plan.shape} · {tokens} tokens{late}", kind="quiet")


def _latencies(result: Summary) -> Iterator[str]:
    top, bottom = _LATENCY_TOP, _LATENCY_TOP + _LATENCY_HEIGHT
    yield text(_MARGIN, top - 14, "Latency from when a request was due", kind="strong")
    yield from _legend(top - 14, {"lambda": "half within", "server": "99% within"}, x=330)
    if any(part.cold_starts for part in result.parts):
        yield from _legend(top - 14, {"hosted": "cold starts"}, x=600)
    found = [part for part in result.parts if part.latency]
    across = _across(result.parts)
    if not found:
        yield text(_LEFT, top + 40, "no answer", kind="quiet")
        return
    low = _power(min(_at(part, "p50") for part in found), math.floor)
    high = max(low + 1, _power(max(_at(part, "p99") for part in found), math.ceil))

    def down(milliseconds: float) -> float:
        span = (math.log10(max(milliseconds, _LEAST_MS)) - low) / (high - low)
        return bottom - span * (bottom - top)

    for power in range(low, high + 1):
        y = down(10.0**power)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        yield text(_LEFT - 8, y + 4, _ms(10.0**power / 1000), kind="quiet", anchor="end")
    yield from _seconds(result.parts, across, bottom)
    for part in result.parts:
        if part.cold_starts:
            x = across(part.begin + part.seconds / 2)
            yield f'<path class="line-hosted small" d="M{x:.1f} {bottom}V{bottom - 10}"/>'
    # A stretch without a request is a gap in the line.
    for answered, group in groupby(result.parts, key=lambda part: part.latency is not None):
        if answered:
            stretch = [*group]
            yield _line(stretch, lambda part: down(_at(part, "p99")), across, "server")
            yield _line(stretch, lambda part: down(_at(part, "p50")), across, "lambda")


def _load(result: Summary) -> Iterator[str]:
    top, bottom = _LOAD_TOP, _LOAD_TOP + _LOAD_HEIGHT
    yield text(_MARGIN, top - 14, "Requests a second", kind="strong")
    kinds = {"lambda": "due", "own": "answered", "server": "throttled, and errors"}
    yield from _legend(top - 14, kinds, x=330)
    across = _across(result.parts)
    most = max(max(part.due, part.answered) / part.seconds for part in result.parts)
    step = _step(most)
    ceiling = step * max(1, math.ceil(most / step))

    def down(rate: float) -> float:
        return bottom - rate / ceiling * (bottom - top)

    for place in range(round(ceiling / step) + 1):
        y = down(place * step)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        label = f"{place * step:g}" if step < 1 else number(place * step)
        yield text(_LEFT - 8, y + 4, label, kind="quiet", anchor="end")
    yield from _seconds(result.parts, across, bottom)
    for part in result.parts:
        bad = (part.throttled + part.errors) / part.seconds
        if bad:
            x, y = across(part.begin), down(min(bad, ceiling))
            width = max(1.0, across(part.begin + part.seconds) - x - 1)
            yield (
                f'<rect class="server" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{bottom - y:.1f}"/>'
            )
    yield _line(result.parts, lambda part: down(part.due / part.seconds), across, "lambda")
    yield _line(result.parts, lambda part: down(part.answered / part.seconds), across, "own")


def _percentiles(latency: Spread | None) -> Iterator[str]:
    if latency is None:
        return
    yield text(_MARGIN, _BARS_TOP, "Latency by the share of requests", kind="strong")
    longest = max(latency.at.values()) or 1.0
    room = _WIDTH - 2 * _MARGIN - _NAMES - _AMOUNTS
    for place, (name, value) in enumerate(latency.at.items()):
        y = _BARS_TOP + 10 + place * _ROW
        x = _MARGIN + _NAMES
        length = max(1.0, value / longest * room)
        label = name if name == "max" else f"{name[1:]}%"
        yield text(x - 10, y + 16, label, anchor="end")
        yield f'<rect class="lambda" x="{x}" y="{y + 4}" width="{length:.1f}" height="16" rx="2"/>'
        yield text(x + length + 8, y + 16, _ms(value))


def _legend(y: float, kinds: dict[str, str], *, x: float) -> Iterator[str]:
    for kind, name in kinds.items():
        yield f'<rect class="{kind}" x="{x}" y="{y - 10}" width="12" height="12" rx="2"/>'
        yield text(x + 18, y, name, kind="quiet")
        x += 46 + 7 * len(name)


def _across(parts: Sequence[Second]) -> Scale:
    last = parts[-1].begin + parts[-1].seconds
    return lambda seconds: _LEFT + seconds / last * (_RIGHT - _LEFT)


def _seconds(parts: Sequence[Second], across: Scale, bottom: float) -> Iterator[str]:
    """Draw the axis of time."""
    last = parts[-1].begin + parts[-1].seconds
    unit, name = (60.0, "minutes") if last > _LONG_SECONDS else (1.0, "seconds")
    step = _step(last / unit, most=8)
    for place in range(int(last / unit / step) + 1):
        x = across(place * step * unit)
        yield text(x, bottom + 18, f"{place * step:,g}", kind="quiet", anchor="middle")
    yield text((_LEFT + _RIGHT) / 2, bottom + 36, name, kind="quiet", anchor="middle")


def _line(
    parts: Sequence[Second], height: Callable[[Second], float], across: Scale, kind: str
) -> str:
    # Each stretch is drawn in its middle, and one alone as a short line.
    places = [(across(part.begin + part.seconds / 2), height(part)) for part in parts]
    if len(places) == 1:
        (x, y), reach = places[0], max(1.0, (across(parts[0].seconds) - across(0)) / 2)
        places = [(x - reach, y), (x + reach, y)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="line-{kind} small" points="{points}"/>'


def _step(value: float, *, most: int = 5) -> float:
    """Return a round step that divides a value into a few parts."""
    rough = max(value, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * unit for unit in (1, 2, 5, 10) if power * unit >= rough)


def _power(milliseconds: float, rounded: Callable[[float], int]) -> int:
    return rounded(math.log10(max(milliseconds, _LEAST_MS)))


def _at(part: Second, name: str) -> float:
    """Return a percentile in milliseconds."""
    return 1000 * part.latency.at[name] if part.latency else 0.0


def _ms(seconds: float) -> str:
    milliseconds = 1000 * seconds
    if milliseconds >= 1000:
        return f"{seconds:,.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{milliseconds:,.0f} ms" if milliseconds >= 10 else f"{milliseconds:,.2g} ms"
