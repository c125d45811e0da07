"""The report of every subject: contenders take turns; a run is a table and JSON."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tools.bench.processor import AMX, features

ROOT = Path(__file__).resolve().parents[2]
#: The names of the usual baseline, of this project, of its graph without its own operator, and of a
#: value that must not be exceeded.
BASE, KIT, PLAIN, LIMIT = "baseline", "kit", "kit-plain", "limit"
#: The unit of most rows.
CPU = "ms of CPU time"
_T = TypeVar("_T")


def turns(
    work: Mapping[str, Callable[[], _T]],
    *,
    rounds: int,
    seconds: float = 0.0,
    warm_up: int = 1,
    pause: float = 0.0,
) -> dict[str, list[_T]]:
    """Let the contenders take turns, so that what else runs on the machine slows all of them.

    Rounds go on for the seconds, but at least as many as asked for; those of the warm-up are not
    counted. Each begins with the pause, in seconds. Returns the results by contender.
    """
    results: dict[str, list[_T]] = {name: [] for name in work}
    for _ in range(warm_up):
        for measure in work.values():
            measure()
    end, done = time.monotonic() + seconds, 0
    while done < rounds or time.monotonic() < end:
        if pause:
            time.sleep(pause)
        for name, measure in work.items():
            results[name].append(measure())
        done += 1
    return results


@dataclass(frozen=True, slots=True)
class ReportRow:
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
            self.values[KIT] > limit * self.values[contender]
            for contender, limit in self.targets.items()
            if contender in self.values
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of one run.

    Attributes:
        model: The model, or else the subject.
        labels: The labels of the contenders, by name.
        base: The contender to which the table shows ratios.
        notes: Facts that are no row, and what could not be measured.
    """

    model: str
    labels: Mapping[str, str]
    rows: Sequence[ReportRow]
    base: str = BASE
    notes: Sequence[str] = ()

    @property
    def missed(self) -> list[str]:
        """The rows in which Embedding Kit exceeds a target."""
        return [str(row) for row in self.rows if row.missed]


class Machine(NamedTuple):
    """The machine of a run, before it.

    Attributes:
        cpu: The model of its processor, or the architecture.
        features: The instructions of `processor.features`, and `AMX hidden`.
        load: The load average of a minute; None in old results, which lack it.
    """

    cpu: str
    features: Sequence[str]
    cores: int
    load: float | None
    onnxruntime: str

    def __str__(self) -> str:
        instructions = f" ({', '.join(self.features)})" if self.features else ""
        load = "" if self.load is None else f", load {self.load:.1f}"
        cores = f"{self.cores} cores{load}"
        return f"{self.cpu}{instructions}, {cores}; ONNX Runtime {self.onnxruntime}."


def this_machine(*, amx_hidden: bool = False) -> Machine:
    """Return this machine as it is now."""
    path = Path("/proc/cpuinfo")
    cpuinfo = path.read_text("utf-8") if path.exists() else ""
    lines = cpuinfo.splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu, load = [*names, platform.machine()][0], round(os.getloadavg()[0], 1)
    instructions = features(cpuinfo)
    if amx_hidden and AMX in instructions:
        instructions[instructions.index(AMX)] = f"{AMX} hidden"
    return Machine(cpu, instructions, os.cpu_count() or 1, load, version("onnxruntime"))


def least(times: Mapping[str, Sequence[float]], factor: float = 1.0) -> dict[str, float]:
    """Return each contender's least time: other work adds to a time and never subtracts from it."""
    return {name: factor * min(values) for name, values in times.items()}


def middle(values_by_name: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return each contender's median."""
    return {name: statistics.median(values) for name, values in values_by_name.items()}


def as_json(run: Comparison, machine: Machine) -> str:
    """Return a run for programs, with four digits of each value."""
    value: dict[str, Any] = {**asdict(run), "machine": machine._asdict(), "missed": run.missed}
    for row in value["rows"]:
        row["values"] = {name: float(f"{number:.4g}") for name, number in row["values"].items()}
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def from_json(report: str) -> tuple[Comparison, Machine]:
    """Return what `as_json` wrote."""
    value: dict[str, Any] = json.loads(report)
    machine = Machine(**value.pop("machine"))
    del value["missed"]
    return Comparison(**{**value, "rows": [ReportRow(**row) for row in value["rows"]]}), machine


def as_page(run: Comparison, machine: Machine) -> str:
    """Return Markdown: a title, and `as_table`."""
    return f"# {run.model}\n\n{as_table(run, machine)}\n"


def as_table(run: Comparison, machine: Machine) -> str:
    """Return Markdown: the machine, a row for each measurement, a column for each contender."""
    names = [name for name in run.labels if any(name in row.values for row in run.rows)]
    ratio = f"In brackets: the ratio to {run.labels.get(run.base, run.base)}."
    if any(row.unit == CPU for row in run.rows):
        ratio = f"Without a unit: {CPU}. {ratio}"
    targets = any(row.targets for row in run.rows)
    head = ["", *(run.labels[name] for name in names), *["target"] * targets]
    lines = [head, ["---"] * len(head)]
    for row in run.rows:
        limits = [
            f"≤ {limit:.3g}" + (f" of {run.labels[contender]}" if contender != run.base else "")
            for contender, limit in row.targets.items()
            if contender in row.values
        ]
        target = ", ".join(limits) + (" **missed**" if row.missed else "")
        label = row.name if row.unit == CPU else str(row)
        cells = [label, *(_cell(row, name, run.base) for name in names)]
        lines.append([*cells, *[target] * targets])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "\n".join(f"- {note}" for note in run.notes)
    return "\n\n".join(filter(None, (f"{machine} {ratio}", table, notes)))


def _cell(row: ReportRow, name: str, base: str) -> str:
    value = row.values.get(name)
    if value is None:
        return "–"
    if not row.unit:
        return f"{value:.4f}"
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3g}"
    base_value = row.values.get(base)
    return f"{shown} ({value / base_value:.2f})" if base_value and name != base else shown
