"""The results as values, as a table and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tools.bench.contenders import BASE, KIT

__all__ = ["TARGETS", "Machine", "Results", "Row", "as_json", "as_table"]

#: The targets of Embedding Kit, as a ratio to the baseline in the same run. They apply to the
#: full-size replica; a smaller model has no targets.
TARGETS = {
    "init": 1 / 9,
    "init, page cache dropped": 1 / 5,
    "peak memory": 0.75,
    "8 tokens": 0.88,
    "32 tokens": 0.90,
    "128 tokens": 0.96,
    "512 tokens": 0.94,
    "2048 tokens": 0.60,
    "64 texts of 8 tokens, each": 0.40,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of all contenders.

    Attributes:
        name: The measured quantity.
        unit: The unit of the values.
        values: The values by contender; those that could not be measured are missing.
    """

    name: str
    unit: str
    values: Mapping[str, float]

    def ratio(self, kind: str) -> float | None:
        """Return a contender's value over the baseline's."""
        value = self.values.get(kind)
        return None if value is None else value / self.values[BASE]


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of the run."""

    cpu: str
    cores: int
    load: float
    onnxruntime: str
    int8_peak: float | None


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one run.

    Attributes:
        model: The model.
        exported_by: The program that wrote the baseline's export.
        machine: The machine.
        labels: The labels of the contenders, by kind.
        absent: The reason why a contender is missing, by its label.
        rows: The measurements.
        notes: Facts that are not ratios, and values that could not be measured.
        full_size: Whether the targets apply.
    """

    model: str
    exported_by: str
    machine: Machine
    labels: Mapping[str, str]
    absent: Mapping[str, str]
    rows: Sequence[Row]
    notes: Sequence[str]
    full_size: bool

    def target(self, row: Row) -> float | None:
        """Return the highest accepted ratio of a row, if any."""
        return TARGETS.get(row.name) if self.full_size else None

    def missed(self) -> list[str]:
        """Return the rows in which Embedding Kit exceeds its target."""
        return [
            row.name
            for row in self.rows
            if (target := self.target(row)) is not None and (row.ratio(KIT) or 0) > target
        ]


def as_json(results: Results) -> str:
    """Return the results with each ratio, for programs."""
    value: dict[str, Any] = asdict(results)
    for entry, row in zip(value["rows"], results.rows, strict=True):
        entry["ratios"] = {kind: round(row.ratio(kind) or 0, 4) for kind in row.values}
        entry["target"] = results.target(row)
    value["missed"] = results.missed()
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_table(results: Results) -> str:
    """Return Markdown with a row for each measurement and a column for each contender."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    kinds = [kind for kind in results.labels if any(kind in row.values for row in results.rows)]
    machine = results.machine
    yield f"# {results.model}"
    yield ""
    yield (
        f"{machine.cpu}, {machine.cores} cores, load {machine.load:.1f}; "
        f"ONNX Runtime {machine.onnxruntime}, one thread. The baseline's export: "
        f"{results.exported_by}. In brackets: the ratio to the baseline."
    )
    yield ""
    yield "| | " + " | ".join(results.labels[kind] for kind in kinds) + " | target |"
    yield "|---" * (len(kinds) + 2) + "|"
    for row in results.rows:
        cells = [_cell(row, kind) for kind in kinds]
        target = results.target(row)
        cells.append("" if target is None else f"≤ {target:.2f}")
        yield f"| {row.name}, {row.unit} | " + " | ".join(cells) + " |"
    yield ""
    for note in results.notes:
        yield f"- {note}"
    for label, reason in results.absent.items():
        yield f"- {label}: absent ({reason})"


def _cell(row: Row, kind: str) -> str:
    value = row.values.get(kind)
    if value is None:
        return "–"
    shown = f"{value:.0f}" if value >= 100 else f"{value:.1f}"
    return shown if kind == BASE else f"{shown} ({row.ratio(kind):.2f})"
