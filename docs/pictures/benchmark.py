"""Draw performance.svg and benchmark.svg from the results of a run in docs/performance.json."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tools.bench.picture import Chart, as_svg, chart_of
from tools.bench.report import Row

__all__ = ["RESULTS", "draw", "draw_all"]

RESULTS = Path(__file__).parents[1] / "performance.json"

#: Name in the run → heading of its panel.
_PANELS: Mapping[str, str] = {
    "init": "Cold start",
    "peak memory": "Peak memory",
    "128 tokens": "One text of 128 tokens",
    "64 texts of 8 tokens, each": "64 short texts, per text",
}
_LABELS: Mapping[str, str] = {
    "kit": "Embedding Kit",
    "baseline": "ONNX export, int8",
    "export": "ONNX export, fp32",
    "fastembed": "fastembed",
    "sentence-transformers": "sentence-transformers",
}
#: The lines below the title.
_CAPTION = """\
A model of EmbeddingGemma's shape with random weights, on one x86 core. Less is better.
Green: the gain over a PyTorch export, quantized by ONNX Runtime (blue). Gray runs in fp32.
""".splitlines()


def draw() -> str:
    """Return the picture of the first page."""
    run = chart_of(RESULTS.read_text(encoding="utf-8"))
    rows = {row.name: row for row in run.rows}
    return as_svg(
        Chart(
            title="Embedding Kit beside other ways to serve the same model",
            caption=_CAPTION,
            labels=_LABELS,
            rows=[
                Row(heading, rows[name].unit, rows[name].values)
                for name, heading in _PANELS.items()
            ],
        )
    )


def draw_all() -> str:
    """Return the picture of the page about performance, with every measurement of the run."""
    run = chart_of(RESULTS.read_text(encoding="utf-8"))
    labels = {kind: run.labels[kind] for kind in _LABELS}
    return as_svg(replace(run, labels=labels))
