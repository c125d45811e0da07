"""The results of one family as values, and as a Markdown table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

__all__ = ["LARGE_VOCABULARY", "FamilyResults", "FamilyRow", "as_json", "as_table", "target"]

#: A vocabulary from which on the initialization has the stricter target.
LARGE_VOCABULARY = 250_000
_TARGETS = {
    "init": 1 / 5,
    "peak memory": 0.5,
    "32 tokens": 0.45,
    "256 tokens": 0.5,
    "2048 tokens": 0.5,
    "64 short texts": 0.25,
}


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One measurement.

    Attributes:
        name: The measured quantity.
        unit: The unit of both values.
        kit: Embedding Kit's value.
        base: That of the usual deployment.
        target: The highest accepted ratio.
    """

    name: str
    unit: str
    kit: float
    base: float
    target: float

    @property
    def ratio(self) -> float:
        """Embedding Kit's value over the other."""
        return self.kit / self.base


@dataclass(frozen=True, slots=True)
class FamilyResults:
    """The results of one run.

    Attributes:
        family: The model whose shape was measured.
        base: The usual deployment, in words.
        machine: The machine, in words.
        sizes: Megabytes of the artifact and of the other's files.
        rows: The measurements.
    """

    family: str
    base: str
    machine: str
    sizes: Mapping[str, float]
    rows: Sequence[FamilyRow]


def target(name: str, *, vocabulary: int) -> float:
    """Return the highest accepted ratio of a measurement."""
    return 1 / 8 if name == "init" and vocabulary >= LARGE_VOCABULARY else _TARGETS[name]


def as_json(results: FamilyResults) -> str:
    """Return the results with their ratios, for programs."""
    value = asdict(results)
    for entry, row in zip(value["rows"], results.rows, strict=True):
        entry["ratio"] = round(row.ratio, 4)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_table(results: FamilyResults) -> str:
    """Return Markdown with a row for each measurement."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: FamilyResults) -> Iterator[str]:
    yield f"# {results.family}: a replica with random weights"
    yield ""
    yield f"{results.machine}. In brackets: the ratio to {results.base}."
    yield ""
    yield f"| | {results.base} | Embedding Kit | target |"
    yield "|---|---|---|---|"
    for row in results.rows:
        mark = "" if row.ratio <= row.target else " **missed**"
        yield (
            f"| {row.name}, {row.unit} | {_number(row.base)} | {_number(row.kit)} "
            f"({row.ratio:.2f}){mark} | ≤ {row.target:.2f} |"
        )
    for name, megabytes in results.sizes.items():
        yield f"\n{name}: {megabytes:.0f} MB on disk"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.3f}"
