"""Throughput against latency as an SVG: a panel for each kind of texts, a line for each server."""

import itertools
import math
import statistics
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from benchmarks.server.measure import LOADS
from benchmarks.server.report import Results

__all__ = ["as_svg"]

_WIDTH, _HEIGHT = 920, 430
_PANEL, _LEFT, _TOP, _BOTTOM, _SPACE = 350, 84, 110, 350, 100
_COLORS = ("#0b7a75", "#8a8f98", "#b45309")
_FONT = 'font-family="system-ui, sans-serif" font-size="13"'
_TITLES = {"short": "short texts, 8 to 20 tokens", "mixed": "mixed texts, 4 to 256 tokens"}


def as_svg(results: Results) -> str:
    """Return the picture; to the right and down is better. Both axes are logarithmic."""
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {_FONT}>',
        "<title>Throughput against latency with 1, 8 and 64 clients</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(24, 34, "Throughput against latency with 1, 8 and 64 clients", size=18),
        _text(24, 56, f"To the right and down is better. {results.cpu}, all in turns in one run."),
    ]
    for number, (name, label) in enumerate(results.labels.items()):
        x = 24 + number * 270
        lines.append(f'<rect x="{x}" y="70" width="14" height="4" fill="{_color(results, name)}"/>')
        lines.append(_text(x + 20, 76, label))
    for number, kind in enumerate(_TITLES):
        lines += _panel(results, kind, _LEFT + number * (_PANEL + _SPACE))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(results: Results, kind: str, left: float) -> Iterator[str]:
    points = {name: _points(results, name, kind) for name in results.labels}
    every = [point for line in points.values() for point in line]
    rates = _decades([rate for rate, _, _ in every])
    times = _decades([time for _, time, _ in every])
    yield _text(left, _TOP - 6, _TITLES[kind])
    for rate in rates:
        x = _place(rate, rates, left, left + _PANEL)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}" stroke="#e5e7eb"/>'
        yield _text(x, _BOTTOM + 18, f"{rate:g}/s", anchor="middle")
    for time in times:
        y = _place(time, times, _BOTTOM, _TOP)
        yield f'<line x1="{left}" x2="{left + _PANEL}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>'
        yield _text(left - 8, y + 4, f"{time:g} ms", anchor="end")
    yield _text(
        left + _PANEL / 2, _BOTTOM + 40, "requests a second; median latency", anchor="middle"
    )
    placed = {
        name: [
            (_place(rate, rates, left, left + _PANEL), _place(time, times, _BOTTOM, _TOP), clients)
            for rate, time, clients in line
        ]
        for name, line in points.items()
    }
    taken = [place for line in placed.values() for place in _along(line)]
    for name, line in placed.items():
        color = _color(results, name)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in line)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        for x, y, clients in line:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>'
            label = _label(x, y, str(clients), taken)
            taken += _inside(label)
            yield _text(label.x, label.y, str(clients), size=11, anchor="middle")


class _Label(NamedTuple):
    """A text's middle and baseline, and the half of its width."""

    x: float
    y: float
    half: float


def _label(x: float, y: float, text: str, taken: list[tuple[float, float]]) -> _Label:
    """Return where the label of a point covers the least of the lines and of other labels."""
    half = 3.5 * len(text)
    around = [
        _Label(x + side * (half + gap), y + down, half)
        for side, gap, down in (
            *((1, 4, -6), (-1, 4, -6), (1, 4, 14), (-1, 4, 14)),
            *((1, 9, 4), (-1, 9, 4), (0, 0, -9), (0, 0, 18)),
        )
    ]
    return min(around, key=lambda label: sum(_covers(label, place) for place in taken))


def _covers(label: _Label, place: tuple[float, float]) -> bool:
    x, y = place
    return abs(x - label.x) <= label.half + 2 and label.y - 11 <= y <= label.y + 3


def _inside(label: _Label) -> list[tuple[float, float]]:
    """Return places that tell another label that this one is there."""
    return [
        (label.x + label.half * side, label.y + up) for side in (-1, 0, 1) for up in (-8, -4, 0)
    ]


def _along(line: list[tuple[float, float, int]]) -> Iterator[tuple[float, float]]:
    """Return places along a line, its ends included."""
    for (x, y, _), (to_x, to_y, _) in itertools.pairwise(line):
        steps = max(1, round(math.hypot(to_x - x, to_y - y) / 3))
        for step in range(steps + 1):
            yield x + (to_x - x) * step / steps, y + (to_y - y) * step / steps


def _points(results: Results, name: str, kind: str) -> list[tuple[float, float, int]]:
    found = []
    for load in LOADS:
        if load.kind == kind:
            cell = results.cells[name, load]
            rate, time = statistics.median(cell.per_second), statistics.median(cell.p50_ms)
            found.append((rate, time, load.clients))
    return found


def _decades(values: list[float]) -> list[float]:
    """Return the powers of ten around some values."""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _place(value: float, axis: list[float], start: float, stop: float) -> float:
    part = math.log10(value / axis[0]) / math.log10(axis[-1] / axis[0])
    return start + part * (stop - start)


def _color(results: Results, name: str) -> str:
    return _COLORS[list(results.labels).index(name) % len(_COLORS)]


def _text(x: float, y: float, text: str, *, size: int = 13, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="#1f2937">{escape(text)}</text>'
    )
