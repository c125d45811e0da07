"""Draw flow.svg: the paths of a model, a request and the metrics."""

from itertools import pairwise

from matplotlib.patches import FancyBboxPatch

from tools.bench.picture import LIGHT, as_svg, new_figure

_WIDTH, _HEIGHT = 1000, 420
_BOX = 172, 66
_COLUMNS = (20, 215, 410, 605, 800)
#: Heading and upper edge of each row, and its boxes: column, title, the line below, kind.
_ROWS = (
    ("Build and deploy", 52, (
        (0, "Model folder", "or a name of the hub", "other"),
        (1, "Compiler", "no torch, any machine", "kit"),
        (2, "Artifact", "graph and tokenizer", "other"),
        (3, "Image", "ARM64, in your ECR", "AWS"),
        (4, "Version", "canary, checked first", "AWS"),
    )),
    ("A request", 184, (
        (0, "Your code", "openai, LangChain, curl", "other"),
        (1, "Signature", "SigV4, your IAM role", "kit"),
        (2, "Function URL", "IAM auth, on the alias", "AWS"),
        (3, "Alias “live”", "scaling, release", "AWS"),
        (4, "Embedder", "ONNX Runtime", "kit"),
    )),
    ("Monitoring", 316, (
        (4, "Logs", "JSON, without texts", "other"),
        (3, "Metrics", "cold starts, latency", "AWS"),
        (2, "Alarms", "dashboard, runbook", "AWS"),
        (1, "Your team", "mails, budget", "other"),
    )),
)  # fmt: skip
#: Fill and edge of each kind.
_KINDS = {
    "other": ("paper", "gray"),
    "kit": ("pale blue", "blue"),
    "AWS": ("pale orange", "orange"),
}


def draw() -> str:
    """Return the picture as SVG."""
    figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, _WIDTH), ylim=(_HEIGHT, 0))

    def box(x: float, y: float, width: float, height: float, kind: str) -> None:
        fill, edge = (LIGHT[name] for name in _KINDS[kind])
        style = f"round,pad=0,rounding_size={height / 8}"
        axes.add_patch(FancyBboxPatch((x, y), width, height, style, fc=fill, ec=edge))

    def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
        look = {"arrowstyle": "-|>", "color": LIGHT["quiet"], "shrinkA": 1, "shrinkB": 1}
        axes.annotate("", end, start, arrowprops=look)

    width, height = _BOX
    for heading, y, boxes in _ROWS:
        axes.text(_COLUMNS[0], y - 12, heading, size=14, weight="bold", color=LIGHT["quiet"])
        for place, (column, title, below, kind) in enumerate(boxes):
            x = _COLUMNS[column]
            box(x, y, width, height, kind)
            axes.text(x + width / 2, y + 28, title, size=15, weight="bold", ha="center")
            axes.text(x + width / 2, y + 49, below, size=13, ha="center", color=LIGHT["quiet"])
            if place:
                before = _COLUMNS[boxes[place - 1][0]]
                right = before < x
                edges = (before + width, x) if right else (before, x + width)
                arrow((edges[0], y + height / 2), (edges[1], y + height / 2))
    for (_, upper, _), (_, lower, _) in pairwise(_ROWS):
        middle = _COLUMNS[-1] + width / 2
        arrow((middle, upper + height), (middle, lower))
    for x, kind, label in ((20, "kit", "this kit"), (120, "AWS", "AWS, in your account")):
        box(x, 394, 14, 14, kind)
        axes.text(x + 22, 406, label, size=13, color=LIGHT["quiet"])
    return as_svg(figure)
