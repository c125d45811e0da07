"""Draw models.svg: published quality and measured time of the catalog's models."""

from matplotlib.axes import Axes

from model_compiler.source.catalog import BENCHMARKS, CATALOG, measurements
from tools.figure import LIGHT, as_svg, new_figure

_WIDTH, _HEIGHT = 480, 960
_TICKS = (0.01, 0.1, 1, 2, 5, 10, 20)
_GAIN = 2


def draw() -> str:
    """Return the picture as SVG: one panel for each benchmark."""
    figure = new_figure(_WIDTH, _HEIGHT)
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
    _draw_panel(panels[0], "retrieval", "English, search")
    _draw_panel(panels[1], "multilingual", "Many languages")
    return as_svg(figure)


def _draw_panel(axes: Axes, benchmark: str, heading: str) -> None:
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
