"""Draws flow.svg: the paths of a model, a request and the metrics.

python docs/pictures/flow.py
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

__all__ = ["draw"]

WIDTH, HEIGHT = 1000, 420
BOX_WIDTH, BOX_HEIGHT = 164, 62


@dataclass(frozen=True, kw_only=True)
class Box:
    """A box with a title and a line below it, at its upper left corner."""

    x: int
    y: int
    title: str
    below: str
    kind: str = "plain"

    @property
    def left(self) -> tuple[int, int]:
        """The middle of the left edge."""
        return self.x, self.y + BOX_HEIGHT // 2

    @property
    def right(self) -> tuple[int, int]:
        """The middle of the right edge."""
        return self.x + BOX_WIDTH, self.y + BOX_HEIGHT // 2

    @property
    def top(self) -> tuple[int, int]:
        """The middle of the upper edge."""
        return self.x + BOX_WIDTH // 2, self.y

    @property
    def bottom(self) -> tuple[int, int]:
        """The middle of the lower edge."""
        return self.x + BOX_WIDTH // 2, self.y + BOX_HEIGHT


COLUMNS = (24, 221, 418, 615, 812)
BUILD, SERVE, WATCH = 54, 184, 314

MODEL = Box(x=COLUMNS[0], y=BUILD, title="Model folder", below="or a name of the hub")
COMPILER = Box(x=COLUMNS[1], y=BUILD, title="Compiler", below="no torch, any machine", kind="ours")
ARTIFACT = Box(x=COLUMNS[2], y=BUILD, title="Artifact", below="graph and tokenizer")
IMAGE = Box(x=COLUMNS[3], y=BUILD, title="Image", below="ARM64, in your ECR", kind="aws")
VERSION = Box(x=COLUMNS[4], y=BUILD, title="Version", below="canary, checked first", kind="aws")

CALLER = Box(x=COLUMNS[0], y=SERVE, title="Your code", below="openai, LangChain, curl")
SIGNER = Box(x=COLUMNS[1], y=SERVE, title="Signature", below="SigV4, your IAM role", kind="ours")
URL = Box(x=COLUMNS[2], y=SERVE, title="Function URL", below="IAM auth, on the alias", kind="aws")
ALIAS = Box(x=COLUMNS[3], y=SERVE, title="Alias “live”", below="scaling, release", kind="aws")
EMBEDDER = Box(x=COLUMNS[4], y=SERVE, title="Embedder", below="ONNX Runtime", kind="ours")

RECORDS = Box(x=COLUMNS[4], y=WATCH, title="Logs", below="JSON, without texts")
METRICS = Box(x=COLUMNS[3], y=WATCH, title="Metrics", below="cold starts, latency", kind="aws")
ALARMS = Box(x=COLUMNS[2], y=WATCH, title="Alarms", below="dashboard, runbook", kind="aws")
TEAM = Box(x=COLUMNS[1], y=WATCH, title="Your team", below="mails, budget")

ROWS = (
    ("Build and deploy", BUILD),
    ("A request", SERVE),
    ("Monitoring", WATCH),
)

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #57606a; text-anchor: middle }
  .title { font-weight: 600; font-size: 14px; fill: #1f2328 }
  .row { text-anchor: start; font-weight: 600 } .legend { text-anchor: start }
  rect { fill: #ffffff; stroke: #8c959f; rx: 8 } .key { rx: 3 }
  .ours { fill: #ddf4ff; stroke: #0969da }
  .aws { fill: #fff1e5; stroke: #bc4c00 }
  path { stroke: #57606a; stroke-width: 1.5; fill: none; marker-end: url(#head) }
  #head path { fill: #57606a; stroke: none; marker-end: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 } .title { fill: #f0f6fc }
    rect { fill: #151b23; stroke: #656c76 }
    .ours { fill: #0c2d6b; stroke: #58a6ff } .aws { fill: #3d1300; stroke: #db6d28 }
    path { stroke: #9198a1 } #head path { fill: #9198a1 }
  }
"""
HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8Z"/></marker></defs>'
)
LEGEND = (("ours", COLUMNS[0], "this kit"), ("aws", COLUMNS[0] + 90, "AWS, in your account"))


def draw() -> str:
    """Return the picture as SVG."""
    rows = (
        (MODEL, COMPILER, ARTIFACT, IMAGE, VERSION),
        (CALLER, SIGNER, URL, ALIAS, EMBEDDER),
        (RECORDS, METRICS, ALARMS, TEAM),
    )
    ahead = [_arrow(a.right, b.left) for row in rows[:2] for a, b in pairwise(row)]
    back = [_arrow(a.left, b.right) for a, b in pairwise(rows[2])]
    down = [_arrow(VERSION.bottom, EMBEDDER.top), _arrow(EMBEDDER.bottom, RECORDS.top)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>From a model to a deployed endpoint, from a request to its vectors</title>",
        f"<style>{STYLE}</style>",
        HEAD,
        *(f'<text class="row" x="{COLUMNS[0]}" y="{y - 14}">{name}</text>' for name, y in ROWS),
        *(_box(box) for row in rows for box in row),
        *ahead,
        *back,
        *down,
        *(
            f'<rect class="{kind} key" x="{x}" y="{HEIGHT - 26}" width="14" height="14"/>'
            f'<text class="legend" x="{x + 21}" y="{HEIGHT - 15}">{name}</text>'
            for kind, x, name in LEGEND
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(box: Box) -> str:
    middle = box.x + BOX_WIDTH // 2
    return (
        f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}"/>'
        f'<text class="title" x="{middle}" y="{box.y + 27}">{escape(box.title)}</text>'
        f'<text x="{middle}" y="{box.y + 46}">{escape(box.below)}</text>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    return f'<path d="M{start[0]} {start[1]} {end[0]} {end[1]}"/>'


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
