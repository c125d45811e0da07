"""Draw the charts of the benchmarks from the results in docs/performance.json and server.json."""

from collections.abc import Mapping
from pathlib import Path

from tools.figure import bars

RESULTS = Path(__file__).parents[1] / "performance.json"

#: Name in the run → heading of its panel.
_PANELS: Mapping[str, str] = {
    "init": "Cold start",
    "peak memory": "Peak memory",
    "128 tokens": "One text of 128 tokens",
    "64 texts of 8 tokens, each": "64 short texts, each",
}
_LABELS: Mapping[str, str] = {
    "kit": "Embedding Kit",
    "baseline": "ONNX export, int8",
    "export": "ONNX export, fp32",
    "fastembed": "fastembed",
    "sentence-transformers": "sentence-transformers",
}
_CLIENTS = ("1 client", "8 clients", "64 clients")
#: The lines below the title.
_CAPTION = """\
EmbeddingGemma's shape, random weights, warm files,
an idle x86 core. Less is better. Green: the gain over the
best of the others. Blue: the usual int8 recipe. Gray: fp32.
""".splitlines()


def draw() -> str:
    """Return the picture of the first page."""
    return bars(
        RESULTS.read_text(encoding="utf-8"),
        title="Five ways to serve the same model",
        caption=_CAPTION,
        headings=_PANELS,
        labels=_LABELS,
    )


def draw_server() -> str:
    """Return the picture of the page about the server."""
    loads = [f"{kind} texts, {count}" for kind in ("short", "mixed") for count in _CLIENTS]
    return bars(
        RESULTS.with_name("server.json").read_text(encoding="utf-8"),
        title="CPU time of a request to the server",
        caption=[
            "Weights of all-MiniLM-L6-v2, on two x86 cores, in turns",
            "in one run. Less is better.",
        ],
        headings={load: load.capitalize() for load in loads},
    )
