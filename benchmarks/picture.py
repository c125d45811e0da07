"""The results as an SVG: one panel for each measurement, one bar for each contender."""

from collections.abc import Iterator
from html import escape

from benchmarks.contenders import BASE, KIT
from benchmarks.report import Results, Row

__all__ = ["as_svg"]

_WIDTH = 920
_LABEL = 210  # Space for the contender's name.
_BAR = 16
_GAP = 5
_PANEL = 34  # A panel's heading and the space above it.
_TOP = 92
_VALUE = 120  # Space for the number behind a bar.
_LONGEST = 3.0  # A bar longer than this multiple of the baseline's is cut off and labeled.
_COLOURS = {KIT: "#0b7a75", BASE: "#8a8f98"}
_OTHER = "#c9cdd3"
# Letters stay legible where they cross the line.
_HALO = 'stroke="#ffffff" stroke-width="3" paint-order="stroke"'
_FONT = 'font-family="system-ui, sans-serif" font-size="13"'


def as_svg(results: Results) -> str:
    """Return the picture; shorter bars are better, and the baseline is one."""
    height = _TOP + sum(map(_height, results.rows)) + 46
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {_FONT}>',
        f"<title>{escape(results.model)}: Embedding Kit beside others</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(24, 36, results.model, size=20, weight=600),
        _text(24, 58, "Shorter is better. The line marks the baseline, measured in "),
        _text(24, 76, f"the same run, one thread, {results.machine.cpu}."),
    ]
    y = float(_TOP)
    for row in results.rows:
        lines += _panel(results, row, y)
        y += _height(row)
    absent = "; ".join(f"{label}: {reason}" for label, reason in results.absent.items())
    footer = f"Absent: {absent}." if absent else "No contender is absent."
    lines += [_text(24, height - 20, footer, color="#6b7280"), "</svg>"]
    return "\n".join(lines) + "\n"


def _height(row: Row) -> int:
    return _PANEL + len(row.values) * (_BAR + _GAP) + 8


def _panel(results: Results, row: Row, top: float) -> Iterator[str]:
    ratios = {kind: row.ratio(kind) or 0.0 for kind in results.labels if kind in row.values}
    scale = (_WIDTH - _LABEL - _VALUE - 24) / min(_LONGEST, max(1.0, *ratios.values()))
    yield _text(24, top + 22, f"{row.name} ({row.unit})", weight=600)
    y = top + _PANEL
    line, bottom = _LABEL + scale, y + len(ratios) * (_BAR + _GAP)
    yield (
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="{y - 3:.0f}" y2="{bottom:.0f}" '
        'stroke="#374151" stroke-width="1" stroke-dasharray="3 3"/>'
    )
    for kind, ratio in ratios.items():
        cut = ratio > _LONGEST
        length = min(ratio, _LONGEST) * scale
        color = _COLOURS.get(kind, _OTHER)
        weight = 600 if kind == KIT else 400
        middle = y + _BAR - 4
        yield _text(_LABEL - 8, middle, results.labels[kind], anchor="end", weight=weight)
        yield (
            f'<rect x="{_LABEL}" y="{y:.0f}" width="{length:.1f}" height="{_BAR}" rx="2" '
            f'fill="{color}"/>'
        )
        if cut:
            yield _text(_LABEL + length - 18, middle, "»", weight=600)
        value = row.values[kind]
        number = f"{value:.0f}" if value >= 100 else f"{value:.1f}"
        shown = number if kind == BASE else f"{number}  ×{ratio:.2f}"
        yield _text(_LABEL + length + 6, middle, shown, weight=weight)
        y += _BAR + _GAP


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    weight: int = 400,
    anchor: str = "start",
    color: str = "#1f2937",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{color}" {_HALO}>{escape(text)}</text>'
    )
