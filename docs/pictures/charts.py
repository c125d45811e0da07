"""Draw the charts: of benchmarks, of the catalog's models, of a cold start and of int8's fidelity.

performance.json and server.json are results of `scripts/bench pages`. start.json has the steps of
the start that performance.json has as a sum. fidelity.json has the reports that the compiler wrote
into the manifests of models with their published weights.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from model_compiler.fidelity.measure import Thresholds
from model_compiler.source.catalog import BENCHMARKS, CATALOG, measurements
from tools.figure import LIGHT, as_svg, bars, new_figure

_FOLDER = Path(__file__).parent
_RESULTS = _FOLDER.parent / "performance.json"
_MODEL = "embeddinggemma-300m"
#: Narrow, so that the texts can be read on a phone. In pixels, as all lengths.
_WIDTH = 480

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
    "openvino-static": "OpenVINO, static int8",
    "openvino-weights": "OpenVINO, int8 weights",
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


def draw_benchmark() -> str:
    """Return the picture of the first page."""
    run = _read(_RESULTS)[_MODEL]
    return bars(
        json.dumps(run),
        title="Ways to serve the same model",
        caption=_CAPTION,
        headings=_PANELS,
        labels={kind: label for kind, label in _LABELS.items() if kind in run["labels"]},
    )


def draw_server() -> str:
    """Return the picture of the page about the server."""
    loads = [f"{length} texts, {count}" for length in ("short", "mixed") for count in _CLIENTS]
    return bars(
        _RESULTS.with_name("server.json").read_text(encoding="utf-8"),
        title="CPU time of a request to the server",
        caption=[
            "Weights of all-MiniLM-L6-v2, on two x86 cores, in turns",
            "in one run. Less is better.",
        ],
        headings={load: load.capitalize() for load in loads},
    )


_TICKS = (0.01, 0.1, 1, 2, 5, 10, 20)
_GAIN = 2


def draw_models() -> str:
    """Return quality and time of the catalog's models as SVG: a panel for each benchmark."""
    figure = new_figure(_WIDTH, 960)
    figure.text(0.03, 0.96, "Quality and time of the models", size=18, weight="bold")
    figure.text(
        0.03, 0.945,
        "Right: more CPU time for 256 tokens, as a multiple of\n"
        "all-MiniLM-L6-v2’s. Up: better, as published.\n"
        f"Blue: {_GAIN} points over every faster one.",
        size=13, color=LIGHT["quiet"], va="top", linespacing=1.4,
    )  # fmt: skip
    panels = figure.subplots(
        2, 1, gridspec_kw={"left": 0.09, "right": 0.97, "top": 0.83, "bottom": 0.05}
    )
    _draw_models_panel(panels[0], "retrieval", "English, search")
    _draw_models_panel(panels[1], "multilingual", "Many languages")
    return as_svg(figure)


def _draw_models_panel(axes: Axes, benchmark: str, heading: str) -> None:
    """Draw the models with a result; named are those that gain `_GAIN` over all faster ones."""
    shapes = measurements().shapes
    points = sorted(
        (shapes[entry.shape].tokens_256, -entry.quality[benchmark], entry.short_name)
        for entry in CATALOG
        if benchmark in entry.quality and entry.shape in shapes
    )
    title = f"{heading}: {BENCHMARKS[benchmark].title}"
    axes.set_title(title, size=14, loc="left", color=LIGHT["ink"])
    axes.set_xscale("log")
    axes.grid(color=LIGHT["grid"])
    axes.set_axisbelow(True)
    best = 0.0
    for time, negative, name in points:
        named = -negative >= best + _GAIN
        color = LIGHT["blue" if named else "gray"]
        axes.plot(time, -negative, "o", color=color, markersize=8 if named else 5)
        if named:
            best = -negative
            side, align = (-8, "right") if time >= 1 else (8, "left")
            axes.annotate(
                name, (time, best), (side, 0), textcoords="offset points",
                ha=align, va="center", size=13,
            )  # fmt: skip
    axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()


_LEFT, _RIGHT, _ROW = 174, 20, 30
_FONT = 13
_START_CAPTION = """\
EmbeddingGemma’s shape, random weights, warm files,
an idle x86 core, ms of CPU time. On AWS, the image
is fetched before: that time is not measured yet.
""".splitlines()
_FIDELITY_CAPTION = """\
The compiler’s reports on models with their published
weights. Orange: the least that it accepts.
""".splitlines()


def draw_start() -> str:
    """Return the timeline of a cold start as SVG."""
    rows = _read(_RESULTS)[_MODEL]["rows"]
    kit = {row["name"]: row["values"]["kit"] for row in rows}
    milliseconds = _read(_FOLDER / "start.json")["milliseconds"]
    ready = kit["init"]
    unmeasured = ready - sum(taken or 0 for taken in milliseconds.values())
    steps = {name: taken or unmeasured for name, taken in milliseconds.items()}
    steps["a text of 32 tokens"] = kit["32 tokens"]
    figure = _figure(120 + _ROW * len(steps), "A cold start, step by step", _START_CAPTION)
    axes = _panel(figure, 8, list(steps), (0, 1.08 * sum(steps.values())))
    began = 0.0
    for step_number, taken in enumerate(steps.values()):
        color = LIGHT["orange" if began >= ready else "blue"]
        axes.barh(step_number, taken, 0.66, left=began, color=color)
        _beside(axes, began + taken, step_number, f"{taken:.0f}")
        began += taken
    axes.plot([ready, ready], [-0.5, len(steps) - 1.4], color=LIGHT["quiet"], linewidth=1)
    _beside(axes, ready, 0, f"ready after {ready:.0f} ms", left=True)
    return as_svg(figure)


def draw_fidelity() -> str:
    """Return the fidelity reports of int8 as SVG."""
    models = _read(_FOLDER / "fidelity.json")["models"]
    limits = Thresholds()
    panel = _ROW * len(models)
    figure = _figure(2 * panel + 210, "How near int8 is to full precision", _FIDELITY_CAPTION)
    cosines = _panel(figure, panel + 84, list(models), (0.979, 1.0008))
    shares = _panel(figure, 26, list(models), (0, 118))
    for axes, heading, lowest, highest in (
        (cosines, "Cosine of 59 texts, lowest to mean", limits.cosine_min, 1),
        (shares, "Nearest 10 in common, %", 100 * limits.neighbor_overlap, 100),
    ):
        axes.set_title(heading, size=_FONT, weight="bold", loc="left", x=-0.55)
        for value, color in ((lowest, LIGHT["orange"]), (highest, LIGHT["gray"])):
            axes.plot([value, value], [-0.5, len(models) - 0.5], color=color, linewidth=2)
            axes.text(value, len(models), f"{value:g}", ha="center", size=_FONT, color=color)
    for position, report in enumerate(models.values()):
        ends = [report["cosine_min"], report["cosine_mean"]]
        cosines.plot(ends, [position, position], "o-", color=LIGHT["blue"], linewidth=4)
        _beside(cosines, ends[0], position, " to ".join(f"{end:.4f}" for end in ends), left=True)
        share = 100 * report["neighbor_overlap"]
        shares.barh(position, share, 0.5, color=LIGHT["blue"])
        _beside(shares, 100, position, f"{share:.1f}")
    return as_svg(figure)


def _read(file: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return report


def _figure(height: float, title: str, caption: list[str]) -> Figure:
    figure = new_figure(_WIDTH, height)
    figure.text(14 / _WIDTH, 1 - 30 / height, title, size=18, weight="bold")
    for number, line in enumerate(caption):
        where = 1 - (54 + 18 * number) / height
        figure.text(14 / _WIDTH, where, line, size=_FONT, color=LIGHT["quiet"])
    return figure


def _panel(figure: Figure, bottom: float, names: list[str], limits: tuple[float, float]) -> Axes:
    """Return axes `bottom` pixels above the edge, with a row for each name."""
    height = 72 * figure.get_figheight()
    width, rows = 1 - (_LEFT + _RIGHT) / _WIDTH, _ROW * len(names)
    axes = figure.add_axes((_LEFT / _WIDTH, bottom / height, width, rows / height))
    axes.set(xlim=limits, ylim=(len(names) - 0.5, -0.5))
    axes.set_axis_off()
    for number, name in enumerate(names):
        _beside(axes, limits[0], number, name, left=True)
    return axes


def _beside(axes: Axes, x: float, y: float, text: str, *, left: bool = False) -> None:
    axes.annotate(
        text, (x, y), (-9 if left else 6, 0), textcoords="offset points",
        ha="right" if left else "left", va="center_baseline", size=_FONT,
    )  # fmt: skip
