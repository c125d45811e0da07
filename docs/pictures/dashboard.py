"""Draw dashboard.svg: the dashboard of dev from its own JSON, with made-up data.

The docs show the deployed dashboard: the widgets, their titles, lines, limits and positions come
from the synthesized template. Only the data is made up.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from aws_cdk import App
from pictures.dashboard_sample import BEGIN_HOUR, MINUTES, rows, series, single_value

from embedding_kit.environment_file import load_environment
from stacks.environment_stacks import EnvironmentStacks

__all__ = ["dashboard_body", "draw", "draw_dev"]

_ROOT = Path(__file__).parents[2]

_CELL = 44  # Pixels per cell of CloudWatch's grid, which is 24 cells wide.
#: An upper bound of the average character width, in any of the fonts below.
_CHARACTER = 6.7
_COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
_STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;font-size:11px;fill:#16191f}"
    ".title{font-size:13px;font-weight:bold}.quiet{fill:#687078}"
    ".row{font-family:Menlo,Consolas,monospace;white-space:pre}"
    ".page{fill:#f2f3f3}.frame{fill:#fff;stroke:#d5dbdb}.big{font-size:26px}"
    ".grid{stroke:#eaeded}.limit{stroke:#d13212}.alarm{fill:#e9f5ea}.well{fill:#1d8102}"
    "@media (prefers-color-scheme: dark){"
    "text{fill:#d1d5db}.quiet{fill:#95a5a6}.page{fill:#0f1b2a}.frame{fill:#192534;stroke:#354150}"
    ".grid{stroke:#2a3646}.limit{stroke:#ff5d64}.alarm{fill:#12301c}.well{fill:#6aaf35}}"
)


def draw_dev() -> str:
    """Return the picture of the dashboard that `dev` deploys."""
    context = json.loads((_ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = App(context=context, analytics_reporting=False)
    EnvironmentStacks(app, load_environment("dev", folder=_ROOT / "environments"))
    stack = app.synth().get_stack_by_name("EmbeddingKit-dev-Observability")
    return draw(dashboard_body(stack.template))


def dashboard_body(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template's dashboard, with resource names in place of their values."""
    (body,) = (
        resource["Properties"]["DashboardBody"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Dashboard"
    )
    parts = body["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else _name(part) for part in parts)
    found: dict[str, Any] = json.loads(text)
    return found


def draw(body: dict[str, Any]) -> str:
    """Return an SVG picture of a dashboard's body."""
    height = max(widget["y"] + widget["height"] for widget in body["widgets"]) * _CELL
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * _CELL} {height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{24 * _CELL}" height="{height}" class="page"/>',
    ]
    for widget in body["widgets"]:
        x, y = widget["x"] * _CELL, widget["y"] * _CELL
        lines.append(f'<g transform="translate({x} {y})">')
        lines += _widget(widget, widget["width"] * _CELL, widget["height"] * _CELL)
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def _widget(widget: dict[str, Any], width: int, height: int) -> Iterator[str]:
    yield f'<rect class="frame" x="4" y="4" width="{width - 8}" height="{height - 8}" rx="4"/>'
    properties = widget["properties"]
    if "title" in properties:
        yield _text(14, 24, properties["title"], "title")
    if widget["type"] == "alarm":
        yield from _alarms(properties["alarms"], width)
    elif widget["type"] == "text":
        yield from _markdown(properties["markdown"], width)
    elif widget["type"] == "log":
        yield from _query(properties["title"], properties["query"])
    elif properties.get("view") == "singleValue":
        (key, _) = next(_lines(properties["metrics"]))
        yield _text(14, 70, single_value(key), "big")
        yield _text(14, 96, key, "quiet")
    else:
        yield from _graph(properties, width, height)


def _graph(properties: dict[str, Any], width: int, height: int) -> Iterator[str]:
    drawn = list(_lines(properties["metrics"]))
    limits = properties.get("annotations", {}).get("horizontal", [])
    sides = {
        side: [series(key) for key, at in drawn if at["side"] == side] for side in ("left", "right")
    }
    tops = {
        side: max((value for line in found for _, value in line), default=1) or 1
        for side, found in sides.items()
    }
    # A limit far above would flatten the lines; its label then says that it is above the graph.
    shown = [limit for limit in limits if limit["value"] <= 3 * tops["left"]]
    tops["left"] = max([tops["left"], *(limit["value"] for limit in shown)]) * 1.08
    labels = [at["label"] + (" (right)" if at["side"] == "right" else "") for _, at in drawn]
    for limit in limits:
        above = "" if limit in shown else ", above the graph"
        labels.append(f"{limit['label']}: {_number(limit['value'])}{above}")
    legend = list(_legend(labels, width))
    top, bottom = 40, height - 60 - legend[-1][1]
    left, right = 44, width - (44 if sides["right"] else 14)
    for share in (0, 0.5, 1):
        y = bottom - share * (bottom - top)
        yield f'<path d="M{left} {y:.0f}H{right}" class="grid"/>'
        yield _text(left - 6, y + 4, _number(share * tops["left"]), "quiet", anchor="end")
        if sides["right"]:
            yield _text(right + 6, y + 4, _number(share * tops["right"]), "quiet")
    for hour in range(MINUTES // 60 + 1):
        x = left + hour * 60 / MINUTES * (right - left)
        anchor = "start" if hour == 0 else "end" if hour == MINUTES // 60 else "middle"
        yield _text(x, bottom + 14, f"{BEGIN_HOUR + hour:02d}:00", "quiet", anchor=anchor)
    for n, (key, at) in enumerate(drawn):
        highest = tops[at["side"]]
        step = (right - left) / (MINUTES - 1)
        points = " ".join(
            f"{left + minute * step:.1f},{bottom - min(value / highest, 1) * (bottom - top):.1f}"
            for minute, value in series(key)
        )
        color = _COLORS[n % len(_COLORS)]
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.3"/>'
    for limit in shown:
        y = bottom - limit["value"] / tops["left"] * (bottom - top)
        yield f'<path d="M{left} {y:.0f}H{right}" class="limit" stroke-dasharray="5 4"/>'
    for n, (label, (x, y)) in enumerate(zip(labels, legend, strict=True)):
        color = _COLORS[n % len(_COLORS)] if n < len(drawn) else "#d13212"
        yield f'<rect x="{x}" y="{bottom + 30 + y}" width="9" height="9" fill="{color}"/>'
        yield _text(x + 13, bottom + 38 + y, label)


def _legend(labels: list[str], width: int) -> Iterator[tuple[int, int]]:
    """Arrange the labels in rows that start at (14, 0)."""
    x, y = 14, 0
    for label in labels:
        size = 26 + round(_CHARACTER * len(label))
        if x > 14 and x + size > width - 8:
            x, y = 14, y + 16
        yield x, y
        x += size


def _lines(metrics: list[list[Any]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the lines of a graph: the key of their data, their label and their axis."""
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
        label = str(options.get("label", key))
        yield str(key), {"label": label, "side": str(options.get("yAxis", "left"))}


def _alarms(names: list[str], width: int) -> Iterator[str]:
    x, y = 14, 40
    for name in names:
        shown = name.removeprefix("Alarms")[:-8]
        size = 28 + round(_CHARACTER * len(shown))
        if x + size > width - 14:
            x, y = 14, y + 40
        yield f'<rect x="{x}" y="{y}" width="{size}" height="30" rx="4" class="alarm"/>'
        yield f'<circle cx="{x + 12}" cy="{y + 15}" r="4" class="well"/>'
        yield _text(x + 20, y + 19, shown)
        x += size + 8


def _markdown(markdown: str, width: int) -> Iterator[str]:
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown)
    for n, line in enumerate(textwrap.wrap(plain, width // 7)):
        yield _text(14, 26 + 15 * n, line, "quiet")


def _query(title: str, query: str) -> Iterator[str]:
    # The first line has the log group before the first command.
    commands = query.partition(" | ")[2].splitlines()
    for n, line in enumerate(commands):
        yield _text(14, 46 + 15 * n, line.removeprefix("| "), "quiet")
    for n, row in enumerate(rows(title), start=len(commands) + 1):
        yield _text(14, 46 + 15 * n, row, "row")


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.3g}k"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def _name(part: dict[str, Any]) -> str:
    (value,) = part.values()
    while isinstance(value, list | dict):
        value = value[0] if isinstance(value, list) else value["OutputName"]
    return str(value)
