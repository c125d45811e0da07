"""Bar charts of a run as SVG: a panel for each measurement, a bar for each contender."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from operations.cost.svg import STYLE, text
from tools.bench.contenders import BASE, KIT
from tools.bench.report import Row

__all__ = ["Chart", "as_svg", "chart_of"]

_WIDTH, _MARGIN, _SPACE = 920, 24, 28
_PANEL_WIDTH = (_WIDTH - 2 * _MARGIN - _SPACE) / 2
_NAMES, _VALUES = 158, 62  # Space before and behind the bars.
_BAR, _STEP = 16, 22
_HEADING, _BELOW = 32, 18
_LINE = 20
_STYLE = (
    STYLE + ".other { fill: #8c959f } .head { font-size: 14px; font-weight: 600 }"
    ".gain { fill: #1a7f37; font-weight: 600 }"
    "@media (prefers-color-scheme: dark) { .other { fill: #656c76 } .gain { fill: #3fb950 } }"
)


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn.

    Attributes:
        title: The picture's title.
        caption: Lines below the title.
        labels: The labels of the contenders, by kind.
        rows: The measurements; less is better in each.
        footer: Lines below the panels.
    """

    title: str
    caption: Sequence[str]
    labels: Mapping[str, str]
    rows: Sequence[Row]
    footer: Sequence[str] = ()


def chart_of(results: str) -> Chart:
    """Return the chart of a run.

    Args:
        results: The JSON of the run, as `tools.bench.report.as_json` writes it.
    """
    value: dict[str, Any] = json.loads(results)
    return Chart(
        title=f"{_capital(value['model'])}: less is better",
        caption=[f"{value['machine']['cpu']}, one thread, all in the same run"],
        labels=value["labels"],
        rows=[Row(row["name"], row["unit"], row["values"]) for row in value["rows"]],
        footer=[f"Absent: {label} ({reason})" for label, reason in value["absent"].items()],
    )


def as_svg(chart: Chart) -> str:
    """Return the picture, with two panels beside each other; each has a scale of its own."""
    pairs = [chart.rows[first : first + 2] for first in range(0, len(chart.rows), 2)]
    top = 52 + _LINE * len(chart.caption)
    height = top + sum(map(_height, pairs)) + _LINE * len(chart.footer) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img">',
        f"<title>{escape(chart.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height:.0f}"/>',
        text(_MARGIN, 38, chart.title, kind="title"),
        *_lines(chart.caption, 62),
    ]
    y = float(top)
    for pair in pairs:
        for column, row in enumerate(pair):
            parts += _panel(chart.labels, row, _MARGIN + column * (_PANEL_WIDTH + _SPACE), y)
        y += _height(pair)
    parts += _lines(chart.footer, y + 12)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(lines: Sequence[str], y: float) -> Iterator[str]:
    for place, line in enumerate(lines):
        yield text(_MARGIN, y + _LINE * place, line, kind="quiet")


def _height(rows: Sequence[Row]) -> int:
    return _HEADING + _STEP * max(len(row.values) for row in rows) + _BELOW


def _panel(labels: Mapping[str, str], row: Row, left: float, top: float) -> Iterator[str]:
    """Yield a heading, the gain over the baseline, and a bar for each contender of the row."""
    unit = row.unit.replace(" of CPU time", " CPU")
    yield text(left, top + 20, f"{_capital(row.name)}, {unit}", kind="head")
    ratio = row.ratio(KIT)
    if ratio is not None and ratio < 1:
        gain = f"{1 / ratio:.1f}× less"
        yield text(left + _PANEL_WIDTH, top + 20, gain, kind="gain", anchor="end")
    scale = (_PANEL_WIDTH - _NAMES - _VALUES) / max(row.values.values())
    y = top + _HEADING
    for kind, label in labels.items():
        if kind not in row.values:
            continue
        value = row.values[kind]
        length = max(1.0, value * scale)
        weight = "strong" if kind == KIT else "quiet"
        color = {KIT: "own", BASE: "lambda"}.get(kind, "other")
        number = f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        x = left + _NAMES
        yield text(x - 8, y + 13, label, kind=weight, anchor="end")
        yield (
            f'<rect class="{color}" x="{x:.1f}" y="{y:.1f}" width="{length:.1f}" '
            f'height="{_BAR}" rx="2"/>'
        )
        yield text(x + length + 6, y + 13, number, kind=weight)
        y += _STEP


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
