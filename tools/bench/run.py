"""The frame of every subject: contenders take turns, and the run is a table, JSON and a picture."""

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

ROOT = Path(__file__).resolve().parents[2]
#: The names of the usual baseline, of this project, and of a value that must not be exceeded.
BASE, KIT, LIMIT = "baseline", "kit", "limit"
#: The unit of most rows.
CPU = "ms of CPU time"
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
        values: The values by contender; those that could not be measured are missing.
        targets: Contender → the highest accepted ratio of Embedding Kit's value to its value.
    """

    name: str
    unit: str
    values: Mapping[str, float]
    targets: Mapping[str, float] = field(default_factory=dict)

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
        notes: Facts that are no row, and values that could not be measured.
        absent: The reason why a contender is missing, by its label.
        cosines: The lowest cosine to full precision of each contender's vectors.
    """

    model: str
    labels: Mapping[str, str]
    rows: Sequence[Row]
    base: str = BASE
    notes: Sequence[str] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    cosines: Mapping[str, float] = field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        """The rows in which Embedding Kit exceeds a target."""
        return [f"{row.name}, {row.unit}" for row in self.rows if row.missed]


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


def middle(found: Mapping[str, Sequence[float]], factor: float = 1.0) -> dict[str, float]:
    """Return each contender's median."""
    return {name: factor * statistics.median(values) for name, values in found.items()}


def as_json(run: Run, machine: Machine) -> str:
    """Return a run for programs."""
    value: dict[str, Any] = {**asdict(run), "machine": asdict(machine), "missed": run.missed}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_table(run: Run, machine: Machine) -> str:
    """Return Markdown with a row for each measurement and a column for each contender."""
    names = [name for name in run.labels if any(name in row.values for row in run.rows)]
    where = f"{machine.cpu}, {machine.cores} cores, load {machine.load:.1f}"
    ratio = f"In brackets: the ratio to {run.labels.get(run.base, run.base)}."
    lines = [
        f"# {run.model}",
        "",
        f"{where}; ONNX Runtime {machine.onnxruntime}. {ratio}",
        "",
        _line("", *(run.labels[name] for name in names), "target"),
        "|---" * (len(names) + 2) + "|",
    ]
    if run.cosines:
        shown = [f"{run.cosines[name]:.4f}" if name in run.cosines else "–" for name in names]
        lines.append(_line("lowest cosine to full precision", *shown, ""))
    for row in run.rows:
        limits = [
            f"≤ {limit:.3g} of {run.labels[other]}"
            for other, limit in row.targets.items()
            if other in row.values
        ]
        target = ", ".join(limits) + (" **missed**" if row.missed else "")
        cells = [_cell(row, name, run.base) for name in names]
        lines.append(_line(f"{row.name}, {row.unit}", *cells, target))
    lines += ["", *(f"- {note}" for note in run.notes)]
    lines += [f"- {label}: absent ({reason})" for label, reason in run.absent.items()]
    return "\n".join(lines) + "\n"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(row: Row, name: str, base: str) -> str:
    value = row.values.get(name)
    if value is None:
        return "–"
    shown = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3g}"
    whole = row.values.get(base)
    return f"{shown} ({value / whole:.2f})" if whole and name != base else shown
