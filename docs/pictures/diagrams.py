"""Draw the diagrams: the paths of a request, a release, and the ways to call the endpoint."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from tools.figure import LIGHT, as_svg, new_figure

_WIDTH = 1000
_BOX = 172, 66
_COLUMNS = (20, 215, 410, 605, 800)
#: Fill and edge of each kind.
_KINDS = {
    "other": ("paper", "gray"),
    "kit": ("pale blue", "blue"),
    "AWS": ("pale orange", "orange"),
}


class Box(NamedTuple):
    """A box: the number of its column, title, the line below, and a name of `_KINDS`."""

    column: int
    title: str
    below: str
    kind: str


class DiagramRow(NamedTuple):
    """A heading, the upper edge in pixels, and boxes with an arrow from each to the next."""

    heading: str
    y: int
    boxes: Sequence[Box]


_FLOW = (
    DiagramRow("Build and deploy", 52, (
        Box(0, "Model folder", "or a name of the hub", "other"),
        Box(1, "Compiler", "no torch, any machine", "kit"),
        Box(2, "Artifact", "graph and tokenizer", "other"),
        Box(3, "Image", "ARM64, in your ECR", "AWS"),
        Box(4, "Version", "canary, checked first", "AWS"),
    )),
    DiagramRow("A request", 184, (
        Box(0, "Your code", "openai, LangChain, curl", "other"),
        Box(1, "Signature", "SigV4, your IAM role", "kit"),
        Box(2, "Function URL", "IAM auth, on the alias", "AWS"),
        Box(3, "Alias “live”", "scaling, release", "AWS"),
        Box(4, "Embedder", "ONNX Runtime", "kit"),
    )),
    DiagramRow("Monitoring", 316, (
        Box(4, "Logs", "JSON, without texts", "other"),
        Box(3, "Metrics", "cold starts, latency", "AWS"),
        Box(2, "Alarms", "dashboard, runbook", "AWS"),
        Box(1, "Your team", "mails, budget", "other"),
    )),
)  # fmt: skip
_RELEASE = (
    DiagramRow("A deploy", 40, (
        Box(0, "scripts/deploy", "preflight, image", "kit"),
        Box(1, "New version", "published, no traffic", "AWS"),
        Box(2, "Release check", "golden vectors, space", "kit"),
        Box(3, "CodeDeploy", "10%, a pause, the rest", "AWS"),
        Box(4, "Alias “live”", "all requests", "AWS"),
    )),
    DiagramRow("What stops it", 172, (
        Box(2, "Rejected", "another space or vectors", "other"),
        Box(1, "Stack rolls back", "the alias did not move", "AWS"),
    )),
    DiagramRow("", 172, (
        Box(3, "Alarm fires", "crashes, errors, p99", "AWS"),
        Box(4, "Shifted back", "requests, then the stack", "AWS"),
    )),
)  # fmt: skip
#: A row for each kind of caller: who calls, how it proves who it is, what it calls.
_WAYS = (
    DiagramRow("Code with AWS credentials", 40, (
        Box(0, "Your service", "client, or a signer", "other"),
        Box(1, "SigV4", "named in [callers]", "kit"),
        Box(2, "Function URL", "IAM auth", "AWS"),
        Box(3, "Alias “live”", "", "AWS"),
        Box(4, "Embedder", "on Lambda", "kit"),
    )),
    DiagramRow("Code in a VPC without internet", 150, (
        Box(0, "Your service", "the client, function=", "other"),
        Box(1, "SigV4", "[callers] invoke", "kit"),
        Box(2, "Lambda’s Invoke", "interface endpoint", "AWS"),
        Box(3, "Alias “live”", "", "AWS"),
        Box(4, "Embedder", "on Lambda", "kit"),
    )),
    DiagramRow("Tools that only know a URL and a key", 260, (
        Box(0, "OpenAI’s SDK", "unmodified", "other"),
        Box(1, "API key", "[front], limits each", "kit"),
        Box(2, "API Gateway", "domain, firewall", "AWS"),
        Box(3, "Alias “live”", "", "AWS"),
        Box(4, "Embedder", "on Lambda", "kit"),
    )),
    DiagramRow("A constant high load", 370, (
        Box(0, "OpenAI’s SDK", "unmodified", "other"),
        Box(1, "API key", "[server]", "kit"),
        Box(2, "Load balancer", "in your VPC", "AWS"),
        Box(3, "Server", "on Fargate", "kit"),
    )),
)  # fmt: skip


def draw_flow() -> str:
    """Return the picture of the first page as SVG."""
    return _draw(_FLOW, [(4, upper.y, lower.y) for upper, lower in pairwise(_FLOW)], 420)


def draw_release() -> str:
    """Return the picture of a release as SVG."""
    return _draw(_RELEASE, [(column, 40, 172) for column in (2, 3)], 278)


def draw_ways() -> str:
    """Return the picture of the ways to call the endpoint as SVG."""
    return _draw(_WAYS, [], 474)


def _draw(rows: Sequence[DiagramRow], down: Sequence[tuple[int, int, int]], height: int) -> str:
    """Return rows, and arrows down: a column, and the upper edges of the two rows."""
    figure = new_figure(_WIDTH, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, _WIDTH), ylim=(height, 0))
    for row in rows:
        _draw_row(axes, row)
    for column, upper, lower in down:
        middle = _COLUMNS[column] + _BOX[0] / 2
        _arrow(axes, (middle, upper + _BOX[1]), (middle, lower))
    for x, owner, label in ((20, "kit", "this kit"), (120, "AWS", "AWS, in your account")):
        _frame(axes, x, height - 26, (14, 14), owner)
        axes.text(x + 22, height - 14, label, size=13, color=LIGHT["quiet"])
    return as_svg(figure)


def _draw_row(axes: Axes, row: DiagramRow) -> None:
    width, height = _BOX
    y = row.y
    left_edge = min(_COLUMNS[box.column] for box in row.boxes)
    axes.text(left_edge, y - 12, row.heading, size=14, weight="bold", color=LIGHT["quiet"])
    for box in row.boxes:
        x = _COLUMNS[box.column]
        _frame(axes, x, y, _BOX, box.kind)
        title = y + (28 if box.below else 38)
        axes.text(x + width / 2, title, box.title, size=15, weight="bold", ha="center")
        axes.text(x + width / 2, y + 49, box.below, size=13, ha="center", color=LIGHT["quiet"])
    for before, after in pairwise(_COLUMNS[box.column] for box in row.boxes):
        ends = (before + width, after) if before < after else (before, after + width)
        _arrow(axes, (ends[0], y + height / 2), (ends[1], y + height / 2))


def _frame(axes: Axes, x: float, y: float, size: tuple[float, float], kind: str) -> None:
    fill, edge = (LIGHT[name] for name in _KINDS[kind])
    style = f"round,pad=0,rounding_size={size[1] / 8}"
    axes.add_patch(FancyBboxPatch((x, y), *size, style, fc=fill, ec=edge))


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    look = {"arrowstyle": "-|>", "color": LIGHT["quiet"], "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", end, start, arrowprops=look)
