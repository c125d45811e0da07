"""The report of every subject: contenders take turns; a run is a table, JSON and a picture."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.axes import Axes

from tools.figure import LIGHT, as_svg, new_figure

ROOT = Path(__file__).resolve().parents[2]
#: The names of the usual baseline, of this project, and of a value that must not be exceeded.
BASE, KIT, LIMIT = "baseline", "kit", "limit"
#: The unit of most rows.
CPU = "ms of CPU time"
#: The height of a bar and the width of a picture, in pixels.
_BAR, _WIDTH = 22, 720
_T = TypeVar("_T")


def turns(
    work: Mapping[str, Callable[[], _T]], *, rounds: int, seconds: float = 0.0, warm_up: int = 1
) -> dict[str, list[_T]]:
    """Let the contenders take turns, so that what else runs on the machine slows all of them.

    Rounds go on for the seconds, but at least as many as asked for; those of the warm-up are not
    counted. Returns the results by contender.
    """
    found: dict[str, list[_T]] = {name: [] for name in work}
    for _ in range(warm_up):
        for measure in work.values():
            measure()
    end, done = time.monotonic() + seconds, 0
    while done < rounds or time.monotonic() < end:
        for name, measure in work.items():
            found[name].append(measure())
        done += 1
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of all contenders. Less is better, where there are targets.

    Attributes:
        unit: The unit; empty for a cosine.
        values: The values by contender; those that could not be measured are missing.
        targets: Contender → the highest accepted ratio of Embedding Kit's value to its value.
    """

    name: str
    unit: str
    values: Mapping[str, float]
    targets: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}, {self.unit}" if self.unit else self.name

    @property
    def missed(self) -> bool:
        """Whether Embedding Kit exceeds a target."""
        return any(
            self.values[KIT] > limit * self.values[other]
            for other, limit in self.targets.items()
            if other in self.values
        )


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one run.

    Attributes:
        model: The model, or else the subject.
        labels: The labels of the contenders, by name.
        base: The contender to which the table shows ratios.
        notes: Facts that are no row, and what could not be measured.
    """

    model: str
    labels: Mapping[str, str]
    rows: Sequence[Row]
    base: str = BASE
    notes: Sequence[str] = ()

    @property
    def missed(self) -> list[str]:
        """The rows in which Embedding Kit exceeds a target."""
        return [str(row) for row in self.rows if row.missed]


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a run, before it."""

    cpu: str
    cores: int
    load: float
    onnxruntime: str

    @classmethod
    def here(cls) -> "Machine":
        """Return this machine; its name is that of the CPU's model, or of the architecture."""
        path = Path("/proc/cpuinfo")
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return cls(
            cpu=names[0] if names else platform.machine(),
            cores=os.cpu_count() or 1,
            load=round(os.getloadavg()[0], 1),
            onnxruntime=version("onnxruntime"),
        )


def least(found: Mapping[str, Sequence[float]], factor: float = 1.0) -> dict[str, float]:
    """Return each contender's least time: other work adds to a time and never subtracts from it."""
    return {name: factor * min(values) for name, values in found.items()}


def middle(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return each contender's median."""
    return {name: statistics.median(values) for name, values in found.items()}


def as_json(run: Run, machine: Machine) -> str:
    """Return a run for programs."""
    value: dict[str, Any] = {**asdict(run), "machine": asdict(machine), "missed": run.missed}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_table(run: Run, machine: Machine) -> str:
    """Return Markdown with a row for each measurement and a column for each contender."""
    names = [name for name in run.labels if any(name in row.values for row in run.rows)]
    where = f"{machine.cpu}, {machine.cores} cores, load {machine.load:.1f}"
    ratio = f"In brackets: the ratio to {run.labels.get(run.base, run.base)}."
    lines = [["", *(run.labels[name] for name in names), "target"], ["---"] * (len(names) + 2)]
    for row in run.rows:
        limits = [
            f"≤ {limit:.3g} of {run.labels[other]}"
            for other, limit in row.targets.items()
            if other in row.values
        ]
        target = ", ".join(limits) + (" **missed**" if row.missed else "")
        lines.append([str(row), *(_cell(row, name, run.base) for name in names), target])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "".join(f"- {note}\n" for note in run.notes)
    about = f"{where}; ONNX Runtime {machine.onnxruntime}. {ratio}"
    return f"# {run.model}\n\n{about}\n\n{table}\n\n{notes}"


def _cell(row: Row, name: str, base: str) -> str:
    value = row.values.get(name)
    if value is None:
        return "–"
    if not row.unit:
        return f"{value:.4f}"
    shown = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3g}"
    whole = row.values.get(base)
    return f"{shown} ({value / whole:.2f})" if whole and name != base else shown


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
        report: The JSON of a run, as `as_json` writes it. Less is better in each row.
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
    caption = caption or [f"{run['machine']['cpu']}, all in one run. Less is better."]
    top, count = 58 + 22 * len(caption), -(-len(headings) // 2)
    height = top + count * (_BAR * len(labels) + 46) + 10
    figure = new_figure(_WIDTH, height)
    figure.text(20 / _WIDTH, 1 - 34 / height, title or run["model"], size=20, weight="bold")
    for place, line in enumerate(caption):
        figure.text(
            20 / _WIDTH, 1 - (58 + 20 * place) / height, line, size=13, color=LIGHT["quiet"]
        )
    grid = figure.subplots(
        count, 2, sharey=True, squeeze=False,
        gridspec_kw={
            "left": 185 / _WIDTH, "right": 1 - 20 / _WIDTH, "top": 1 - (top + 18) / height,
            "bottom": 10 / height, "wspace": 0.08, "hspace": 46 / (_BAR * len(labels)),
        },
    )  # fmt: skip
    panels = grid.flatten()
    for axes in panels:
        axes.set_axis_off()
    for axes, (name, heading) in zip(panels, headings.items(), strict=False):
        _panel(axes, rows[name], heading, labels, run["base"])
    for axes in grid[:, 0]:
        for place, (kind, label) in enumerate(labels.items()):
            weight = "bold" if kind == KIT else "normal"
            axes.annotate(
                label, (0, place), (-8, 0), textcoords="offset points",
                ha="right", va="center_baseline", weight=weight,
            )  # fmt: skip
    return as_svg(figure)


def _panel(
    axes: Axes, row: dict[str, Any], heading: str, labels: Mapping[str, str], base: str
) -> None:
    """Draw a heading, the gain over the best other, and a bar for each contender of the row."""
    values = {kind: row["values"].get(kind) for kind in labels}
    known = [value for value in values.values() if value is not None]
    axes.set(xlim=(0, 1.32 * max(known) or 1), ylim=(len(labels) - 0.4, -0.6))
    unit = row["unit"].replace(" of CPU time", " CPU")
    if heading.endswith(", each"):
        heading, unit = heading.removesuffix(", each").replace(" to ", "–"), "ms CPU each"
    axes.text(0, -0.85, f"{heading}, {unit}", weight="bold", size=12)
    for place, (kind, value) in enumerate(values.items()):
        if value is None:
            continue
        color = LIGHT["green" if kind == KIT else "blue" if kind == base else "gray"]
        axes.barh(place, value, 0.72, color=color)
        shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
        others = [known for other, known in values.items() if other != KIT and known]
        gain = min(others) / value if kind == KIT and others and value else 0
        axes.annotate(
            f"{shown} ({gain:.1f}× less)" if gain > 1 else shown,
            (value, place), (5, 0), textcoords="offset points", va="center_baseline",
            weight="bold" if kind == KIT else "normal",
            color=LIGHT["green" if kind == KIT else "ink"],
        )  # fmt: skip
