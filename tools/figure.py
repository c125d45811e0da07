"""Figures of matplotlib in the reader's light or dark scheme, and the chart of a benchmark."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: The colors in the light scheme, which figures use, and those in the dark one.
LIGHT: Mapping[str, str] = {
    "paper": "#ffffff", "ink": "#1f2328", "quiet": "#57606a", "grid": "#d8dee4",
    "green": "#1a7f37", "blue": "#0969da", "orange": "#bc4c00", "gray": "#8c959f",
    "pale blue": "#ddf4ff", "pale orange": "#fff1e5",
}  # fmt: skip
_DARK: Mapping[str, str] = {
    "paper": "#0d1117", "ink": "#e6edf3", "quiet": "#9198a1", "grid": "#2f353d",
    "green": "#3fb950", "blue": "#58a6ff", "orange": "#db6d28", "gray": "#656c76",
    "pale blue": "#0c2d6b", "pale orange": "#3d1300",
}  # fmt: skip
# Text stays text, a dollar is a dollar, and the same figure gives the same file.
matplotlib.rcParams.update({
    "font.family": "DejaVu Sans",
    "svg.fonttype": "none",
    "svg.hashsalt": "embedding-kit",
    "text.parse_math": False,
    "font.size": 14,
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["grid"],
    "axes.labelcolor": LIGHT["quiet"],
    "xtick.color": LIGHT["quiet"],
    "ytick.color": LIGHT["quiet"],
    "axes.spines.top": False,
    "axes.spines.right": False,
})  # fmt: skip
#: The height of a bar and of a panel's heading, and the width of a chart and of its labels, in
#: pixels: narrow, so that the texts can be read on a phone.
_BAR, _HEADING, _WIDTH, _LABELS = 22, 42, 480, 180
#: This project's name in a run.
_OURS = "kit"


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in pixels, on paper."""
    return Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=LIGHT["paper"])


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG; each color of `LIGHT` has another value in the dark scheme."""
    file = io.StringIO()
    figure.savefig(
        file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
    )
    # Two decimals of each coordinate; the texts keep theirs.
    svg = re.sub(r"\d+\.\d{3,}(?=[^<>]*>)", lambda found: f"{float(found[0]):.2f}", file.getvalue())
    svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    rules = "".join(
        f'[style*="{key}: {color}"]{{{key}:{_DARK[name]}!important}}'
        for name, color in LIGHT.items()
        for key in ("fill", "stroke")
        if f"{key}: {color}" in svg
    )
    svg = re.sub(r' transform="rotate\(-0 [^"]*"|(?<=\d)pt(?=")', "", svg[svg.index("<svg") :])
    dark = f"@media (prefers-color-scheme: dark){{{rules}}}</style>"
    lines = svg.replace("</style>", dark, 1).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def bars(
    report: str,
    *,
    title: str = "",
    caption: Sequence[str] = (),
    headings: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> str:
    """Return a chart with a panel for each measurement, and in it a bar for each contender.

    Args:
        report: The JSON of a run, as `scripts/bench` writes it. Less is better in each row.
        title: By default the model's name.
        caption: Lines below the title; by default the machine.
        headings: The measurements to draw, and the headings of their panels; by default all.
        labels: The contenders to draw, and their labels; by default all.
    """
    run: dict[str, Any] = json.loads(report)
    labels = labels or run["labels"]
    rows = {row["name"]: row for row in run["rows"]}
    headings = headings or {
        name: name[:1].upper() + name[1:]
        for name, row in rows.items()
        if row["unit"] not in {"", "a second"}  # More of these is better.
    }
    caption = caption or [f"{run['machine']['cpu']},", "all in one run. Less is better."]
    top, panel = 60 + 19 * len(caption), _BAR * len(labels)
    height = top + len(headings) * (_HEADING + panel)
    figure = new_figure(_WIDTH, height)
    figure.text(14 / _WIDTH, 1 - 34 / height, title or run["model"], size=18, weight="bold")
    for line_number, line in enumerate(caption):
        where = 1 - (60 + 19 * line_number) / height
        figure.text(14 / _WIDTH, where, line, size=13, color=LIGHT["quiet"])
    x, width = _LABELS / _WIDTH, 1 - (_LABELS + 14) / _WIDTH
    for number, (name, heading) in enumerate(headings.items(), start=1):
        bottom = 1 - (top - 12 + number * (_HEADING + panel)) / height
        axes = figure.add_axes((x, bottom, width, panel / height))
        axes.set_axis_off()
        _panel(axes, rows[name], heading, labels, run["base"])
        for line_number, (contender_kind, label) in enumerate(labels.items()):
            weight = "bold" if contender_kind == _OURS else "normal"
            axes.annotate(
                label, (0, line_number), (-8, 0), textcoords="offset points",
                ha="right", va="center_baseline", weight=weight,
            )  # fmt: skip
    return as_svg(figure)


def _panel(
    axes: Axes, row: dict[str, Any], heading: str, labels: Mapping[str, str], base: str
) -> None:
    """Draw a heading, the gain over the best other, and a bar for each contender of the row."""
    values = {contender_kind: row["values"].get(contender_kind) for contender_kind in labels}
    measured = [value for value in values.values() if value is not None]
    axes.set(xlim=(0, 1.32 * max(measured) or 1), ylim=(len(labels) - 0.4, -0.6))
    unit = row["unit"].replace(" of CPU time", " CPU")
    if heading.endswith(", each"):
        heading, unit = heading.removesuffix(", each").replace(" to ", "–"), "ms CPU each"
    axes.text(0, -0.85, f"{heading}, {unit}", weight="bold", size=13)
    for bar_number, (contender_kind, value) in enumerate(values.items()):
        if value is None:
            continue
        color = LIGHT[
            "green" if contender_kind == _OURS else "blue" if contender_kind == base else "gray"
        ]
        axes.barh(bar_number, value, 0.72, color=color)
        shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        other_values = [
            measured for contender, measured in values.items() if contender != _OURS and measured
        ]
        gain = (
            min(other_values) / value if contender_kind == _OURS and other_values and value else 0
        )
        axes.annotate(
            f"{shown} ({gain:.1f}× less)" if gain > 1 else shown,
            (value, bar_number), (5, 0), textcoords="offset points", va="center_baseline",
            weight="bold" if contender_kind == _OURS else "normal",
            color=LIGHT["green" if contender_kind == _OURS else "ink"],
        )  # fmt: skip
