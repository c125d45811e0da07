"""Throughput against latency as an SVG: a panel for each kind of texts, a line for each server."""

import itertools
import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from operations.cost.svg import STYLE, text
from tools.bench.server.measure import LOADS
from tools.bench.server.report import Results

__all__ = ["as_svg"]

_WIDTH, _HEIGHT = 920, 430
_PANEL, _LEFT, _TOP, _BOTTOM, _SPACE = 350, 84, 110, 350, 100
#: The classes of the servers' lines, in the order of the results.
_KINDS = ("own", "lambda", "server")
_TITLES = {"short": "short texts, 8 to 20 tokens", "mixed": "mixed texts, 4 to 256 tokens"}


def as_svg(results: Results) -> str:
    """Return the picture; to the right and down is better. Both axes are logarithmic."""
    title = "Throughput against latency with 1, 8 and 64 clients"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}polyline {{ stroke-width: 2 }}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>',
        text(24, 34, title, kind="title"),
        text(24, 56, f"To the right and down is better. {results.cpu}, all in turns in one run."),
    ]
    for number, (name, label) in enumerate(results.labels.items()):
        x = 24 + number * 270
        lines.append(f'<rect class="{_kind(results, name)}" x="{x}" y="70" width="14" height="4"/>')
        lines.append(text(x + 20, 76, label))
    for number, kind in enumerate(_TITLES):
        lines += _panel(results, kind, _LEFT + number * (_PANEL + _SPACE))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(results: Results, kind: str, left: float) -> Iterator[str]:
    points = {name: _points(results, name, kind) for name in results.labels}
    every = [point for line in points.values() for point in line]
    rates = _decades([rate for rate, _, _ in every])
    times = _decades([time for _, time, _ in every])
    yield text(left, _TOP - 6, _TITLES[kind], kind="strong")
    for rate in rates:
        x = _place(rate, rates, left, left + _PANEL)
        yield f'<path class="grid" d="M{x:.1f} {_TOP}V{_BOTTOM}"/>'
        yield text(x, _BOTTOM + 18, f"{rate:g}/s", kind="quiet", anchor="middle")
    for time in times:
        y = _place(time, times, _BOTTOM, _TOP)
        yield f'<path class="grid" d="M{left} {y:.1f}H{left + _PANEL}"/>'
        yield text(left - 8, y + 4, f"{time:g} ms", kind="quiet", anchor="end")
    caption = "requests a second; median latency"
    yield text(left + _PANEL / 2, _BOTTOM + 40, caption, kind="quiet", anchor="middle")
    placed = {
        name: [
            (_place(rate, rates, left, left + _PANEL), _place(time, times, _BOTTOM, _TOP), clients)
            for rate, time, clients in line
        ]
        for name, line in points.items()
    }
    taken = [place for line in placed.values() for place in _along(line)]
    for name, line in placed.items():
        color = _kind(results, name)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in line)
        yield f'<polyline class="line-{color}" points="{path}"/>'
        for x, y, clients in line:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{color}"/>'
            label = _label(x, y, str(clients), taken)
            taken += _inside(label)
            yield text(label.x, label.y, str(clients), kind="quiet", anchor="middle")


class _Label(NamedTuple):
    """A text's middle and baseline, and the half of its width."""

    x: float
    y: float
    half: float


def _label(x: float, y: float, shown: str, taken: list[tuple[float, float]]) -> _Label:
    """Return where the label of a point covers the least of the lines and of other labels."""
    half = 4 * len(shown)
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


def _kind(results: Results, name: str) -> str:
    return _KINDS[list(results.labels).index(name) % len(_KINDS)]
