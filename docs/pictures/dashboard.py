"""Draw dashboard.svg: the dashboard of dev from its own JSON, with made-up data.

The widgets, their titles, lines, limits and positions come from the synthesized template.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aws_cdk import App
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from pictures.dashboard_sample import BEGIN_HOUR, MINUTES, rows, series, single_value

from embedding_kit.environment_file import load_environment
from stacks.environment_stacks import EnvironmentStacks
from tools.bench.picture import LIGHT, as_svg, new_figure

__all__ = ["draw", "draw_dev"]

_ROOT = Path(__file__).parents[2]
_CELL = 44  # Pixels per cell of CloudWatch's grid, which is 24 cells wide.
_LINES = ("blue", "orange", "green", "violet", "gray", "ink")


def draw_dev() -> str:
    """Return the picture of the dashboard that `dev` deploys."""
    context = json.loads((_ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = App(context=context, analytics_reporting=False)
    EnvironmentStacks(app, load_environment("dev", folder=_ROOT / "environments"))
    template = app.synth().get_stack_by_name("EmbeddingKit-dev-Observability").template
    (body,) = (
        resource["Properties"]["DashboardBody"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Dashboard"
    )
    parts = body["Fn::Join"][1]
    return draw(json.loads("".join(p if isinstance(p, str) else _name(p) for p in parts)))


def draw(body: dict[str, Any]) -> str:
    """Return an SVG picture of a dashboard's body."""
    width = 24 * _CELL
    height = max(widget["y"] + widget["height"] for widget in body["widgets"]) * _CELL
    figure = new_figure(width, height)
    figure.set_facecolor(LIGHT["page"])
    page = figure.add_axes((0, 0, 1, 1))
    page.set_axis_off()
    page.set(xlim=(0, width), ylim=(height, 0))
    for widget in body["widgets"]:
        x, y, w, h = (widget[key] * _CELL for key in ("x", "y", "width", "height"))
        properties = widget["properties"]
        _box(page, x + 4, y + 4, w - 8, h - 8, fill="paper", edge="grid")
        page.text(x + 16, y + 26, properties.get("title", ""), size=12, weight="bold")
        if widget["type"] == "alarm":
            _alarms(page, properties["alarms"], x, y, w)
        elif widget["type"] == "text":
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", properties["markdown"])
            _lines(page, textwrap.wrap(plain, w // 7), x + 16, y + 28)
        elif widget["type"] == "log":
            # The first line has the log group before the first command.
            query = properties["query"].partition(" | ")[2].replace("\n| ", "\n")
            below = _lines(page, query.splitlines(), x + 16, y + 48)
            _lines(page, rows(properties["title"]), x + 16, below + 10, mono=True)
        elif properties.get("view") == "singleValue":
            ((key, _, _),) = _metrics(properties["metrics"])
            page.text(x + 16, y + 72, single_value(key), size=26)
            _lines(page, [key], x + 16, y + 98)
        else:
            bottom = h - _legend(page, properties, (x, y + h), w)
            place = ((x + 48) / width, 1 - (y + bottom) / height, (w - 96) / width)
            _graph(figure.add_axes((*place, (bottom - 42) / height)), properties)
    return as_svg(figure)


def _graph(axes: Axes, properties: dict[str, Any]) -> None:
    """Draw the lines of a widget; those of the right side have another axis."""
    metrics = list(_metrics(properties["metrics"]))
    sides = {"left": axes}
    if any(side == "right" for _, _, side in metrics):
        sides["right"] = axes.twinx()
    for color, (key, _, side) in zip(_LINES, metrics, strict=False):
        points = series(key)
        minutes, values = [minute for minute, _ in points], [value for _, value in points]
        sides[side].plot(minutes, values, color=LIGHT[color], linewidth=1.2)
    for drawn in sides.values():
        drawn.set_ylim(0, 1.08 * drawn.dataLim.ymax or 1)
        drawn.tick_params(labelsize=10, length=0, pad=7)
        drawn.locator_params(axis="y", nbins=4)
        drawn.yaxis.set_major_formatter(lambda value, _: _number(value))
        drawn.spines[:].set_visible(False)
    # A limit far above would flatten the lines; the legend has its value.
    near = [lim["value"] for lim in _limits(properties) if lim["value"] < 3 * axes.dataLim.ymax]
    for limit in near:
        axes.axhline(limit, color=LIGHT["red"], linestyle="--", linewidth=1)
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.08 * limit))
    axes.grid(axis="y", color=LIGHT["grid"])
    axes.set_xlim(0, MINUTES)
    hours = range(0, MINUTES + 1, 60)
    axes.set_xticks(hours, [f"{BEGIN_HOUR + minute // 60:02d}:00" for minute in hours])


def _legend(
    page: Axes, properties: dict[str, Any], corner: tuple[float, float], width: float
) -> float:
    """Write the names of lines and limits above a lower left corner; return their height."""
    metrics = _metrics(properties["metrics"])
    entries = [
        (color, label + (" (right)" if side == "right" else ""))
        for color, (_, label, side) in zip(_LINES, metrics, strict=False)
    ]
    entries += [("red", f"{lim['label']}: {_number(lim['value'])}") for lim in _limits(properties)]
    placed, left, line = [], 16.0, 0
    for color, label in entries:
        size = 24 + 6.6 * len(label)
        if left > 16 and left + size > width - 8:
            left, line = 16.0, line + 1
        placed.append((left, line, color, label))
        left += size
    x, top = corner[0], corner[1] - 18 - 16 * line
    for left, number, color, label in placed:
        page.plot(x + left + 4, top + 16 * number - 4, "s", color=LIGHT[color], markersize=7)
        page.text(x + left + 13, top + 16 * number, label, size=11)
    return 56 + 16 * line


def _limits(properties: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = properties.get("annotations", {}).get("horizontal", [])
    return found


def _metrics(metrics: list[list[Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield the key of a line's data, its label and its side."""
    for metric in metrics:
        options = metric[-1] if isinstance(metric[-1], dict) else {}
        if options.get("visible") is False:
            continue
        if isinstance(metric[0], dict):
            key = options["label"]
        else:
            key = f"{metric[1]} {options.get('stat', 'Average')}"
            if metric[0] == "AWS/Lambda" and "FunctionName" not in metric:
                key += " of the account"
        yield str(key), str(options.get("label", key)), str(options.get("yAxis", "left"))


def _alarms(page: Axes, names: list[str], x: float, y: float, width: float) -> None:
    left, top = 16.0, 40
    for name in names:
        shown = name.removeprefix("Alarms")[:-8]
        size = 30 + 6.8 * len(shown)
        if left + size > width - 14:
            left, top = 16.0, top + 38
        _box(page, x + left, y + top, size, 30, fill="pale green", edge="grid")
        page.plot(x + left + 13, y + top + 15, "o", color=LIGHT["green"], markersize=8)
        page.text(x + left + 23, y + top + 19, shown, size=11)
        left += size + 8


def _box(
    page: Axes, x: float, y: float, width: float, height: float, *, fill: str, edge: str
) -> None:
    style = "round,pad=0,rounding_size=4"
    page.add_patch(FancyBboxPatch((x, y), width, height, style, fc=LIGHT[fill], ec=LIGHT[edge]))


def _lines(
    page: Axes, lines: list[str] | tuple[str, ...], x: float, y: float, *, mono: bool = False
) -> float:
    """Write lines of text; return where the next one would be."""
    font, color = ("DejaVu Sans Mono", "ink") if mono else ("DejaVu Sans", "quiet")
    for number, line in enumerate(lines):
        shown = line.replace(" ", "\u00a0")  # SVG collapses repeated spaces.
        page.text(x, y + 16 * number, shown, size=11, family=font, color=LIGHT[color])
    return y + 16 * len(lines)


def _number(value: float) -> str:
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"


def _name(part: dict[str, Any]) -> str:
    """Return a resource's name in place of its value."""
    (value,) = part.values()
    while isinstance(value, list | dict):
        value = value[0] if isinstance(value, list) else value["OutputName"]
    return str(value)
