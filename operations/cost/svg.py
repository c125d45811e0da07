"""Pieces of an SVG that reads on light and dark backgrounds."""

from collections.abc import Sequence
from html import escape

__all__ = ["STYLE", "spread", "text"]

_LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "quiet": "#57606a", "grid": "#d8dee4",
    "own": "#1a7f37", "lambda": "#0969da", "server": "#bc4c00", "hosted": "#8250df",
}  # fmt: skip
_DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "quiet": "#9198a1", "grid": "#2f353d",
    "own": "#3fb950", "lambda": "#58a6ff", "server": "#db6d28", "hosted": "#a371f7",
}  # fmt: skip


def _rules(colors: dict[str, str]) -> str:
    kinds = ("own", "lambda", "server", "hosted")
    return "\n".join(
        [
            f".paper {{ fill: {colors['paper']} }}",
            f"text {{ fill: {colors['ink']} }} .quiet {{ fill: {colors['quiet']} }}",
            f".grid {{ stroke: {colors['grid']} }} .now {{ stroke: {colors['ink']} }}",
            *(f".{kind} {{ fill: {colors[kind]} }}" for kind in kinds),
            *(f".line-{kind} {{ stroke: {colors[kind]} }}" for kind in kinds),
        ]
    )


STYLE = f"""
text {{ font: 13px system-ui, sans-serif }}
.title {{ font-size: 22px; font-weight: 600 }} .strong {{ font-weight: 600 }}
path, polyline {{ fill: none; stroke-width: 1 }}
polyline {{ stroke-width: 2 }} polyline.line-own {{ stroke-width: 4 }}
.now {{ stroke-dasharray: 4 4 }}
{_rules(_LIGHT)}
@media (prefers-color-scheme: dark) {{
{_rules(_DARK)}
}}
"""


def text(x: float, y: float, content: str, *, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text.

    Args:
        x: The position of the anchor.
        y: The baseline.
        content: The text.
        kind: A class of the style: `title`, `strong` or `quiet`.
        anchor: `start`, `middle` or `end`.
    """
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def spread(wanted: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Move positions apart until each two differ by the gap, in their order.

    Args:
        wanted: The positions.
        gap: The least difference.
        low: The lowest allowed position.
        high: The highest, if there is room.
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed = list(wanted)
    least = low
    for index in order:
        placed[index] = max(placed[index], least)
        least = placed[index] + gap
    most = max(high, low + gap * (len(wanted) - 1))
    for index in reversed(order):
        placed[index] = min(placed[index], most)
        most = placed[index] - gap
    return placed
