"""The results as a table, with the targets, and as JSON."""

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import orjson

from tools.bench.server.load import Load
from tools.bench.server.measure import LOADS, Cell, Fairness
from tools.bench.server.servers import Server

__all__ = ["TARGETS", "Process", "Results", "as_json", "as_table", "missed"]

#: infinity's CPU time of a request, divided by ours: at least this.
TARGETS: Mapping[tuple[str, int], float] = {
    ("short", 1): 3.5,
    ("short", 8): 3.5,
    ("short", 64): 4.0,
    ("mixed", 1): 2.3,
    ("mixed", 8): 2.5,
    ("mixed", 64): 2.5,
}
#: CPU time of a request without merging, divided by that with it, for short texts of 64 clients.
_MERGED_TARGET = 1.5
#: Ours, divided by infinity's, at most.
_START_TARGET, _MEMORY_TARGET = 1 / 40, 1 / 5
#: p99 of single texts beside lists, in runs of 256 tokens, at most.
_FAIRNESS_TARGET = 3.0


@dataclass(frozen=True)
class Process:
    """A server's process."""

    start_seconds: float
    start_cpu_seconds: float
    memory_mb: float

    @classmethod
    def of(cls, server: Server) -> "Process":
        """Read them after the load."""
        return cls(server.start_seconds, server.start_cpu_seconds, server.memory_mb())


@dataclass(frozen=True)
class Results:
    """All that was measured in one run."""

    cpu: str
    #: Work on the machine before the run, as the system counts it.
    load_average: float
    labels: Mapping[str, str]
    cells: Mapping[tuple[str, Load], Cell]
    processes: Mapping[str, Process]
    fairness: Fairness

    def cpu_ms(self, name: str, load: Load) -> float | None:
        """Return the median CPU time of a request over the rounds."""
        cell = self.cells.get((name, load))
        return statistics.median(cell.cpu_ms) if cell else None

    def ratio(self, name: str, load: Load) -> float | None:
        """Return a server's CPU time divided by ours: the median of the rounds' ratios."""
        theirs, ours = self.cells.get((name, load)), self.cells["kit", load]
        if theirs is None:
            return None
        return statistics.median(
            their / our for their, our in zip(theirs.cpu_ms, ours.cpu_ms, strict=True)
        )


def as_table(results: Results) -> str:
    """Return the tables as Markdown."""
    return "\n".join(
        [*_cpu_table(results), "", *_latency_table(results), "", *_others(results), ""]
    )


def _cpu_table(results: Results) -> list[str]:
    names = list(results.labels)
    others = [name for name in names if name != "kit"]
    lines = [
        f"{results.cpu}, load average {results.load_average:.1f} before the run.",
        "",
        "| CPU ms a request | "
        + " | ".join(results.labels[name] for name in names)
        + " | "
        + " | ".join(f"{results.labels[name]} ÷ ours" for name in others)
        + " | target |",
        "|---" * (len(names) + len(others) + 2) + "|",
    ]
    for load in LOADS:
        cells = [_number(results.cpu_ms(name, load)) for name in names]
        ratios = [_number(results.ratio(name, load), "×") for name in others]
        target = f"≥ {TARGETS[load.kind, load.clients]:g} (infinity)"
        title = f"{load.kind}, {load.clients} client{'s' if load.clients > 1 else ''}"
        lines.append(f"| {' | '.join([title, *cells, *ratios, target])} |")
    return lines


def _latency_table(results: Results) -> list[str]:
    names = list(results.labels)
    lines = [
        "| requests/s; p50, p99 in ms | "
        + " | ".join(results.labels[name] for name in names)
        + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for load in LOADS:
        shown = []
        for name in names:
            cell = results.cells[name, load]
            rate, p50, p99 = map(statistics.median, (cell.per_second, cell.p50_ms, cell.p99_ms))
            shown.append(f"{rate:.0f}; {p50:.0f}, {p99:.0f}")
        lines.append(f"| {load.kind}, {load.clients} | {' | '.join(shown)} |")
    return lines


def _others(results: Results) -> list[str]:
    lines = ["| | " + " | ".join(results.labels[name] for name in results.processes) + " |"]
    lines.append("|---" * (len(results.processes) + 1) + "|")
    rows = {
        "start to ready, s": lambda process: f"{process.start_seconds:.1f}",
        "CPU of the start, s": lambda process: f"{process.start_cpu_seconds:.1f}",
        "memory after the load, MB": lambda process: f"{process.memory_mb:.0f}",
    }
    for title, shown in rows.items():
        lines.append(f"| {title} | {' | '.join(map(shown, results.processes.values()))} |")
    return [*lines, "", _fairness(results.fairness)]


def _fairness(fair: Fairness) -> str:
    return (
        f"Single texts beside lists of 256: p50 {fair.p50_ms:.0f} ms, p99 {fair.p99_ms:.0f} ms, "
        f"which is {fair.p99_ms / fair.run_ms:.1f} runs of 256 tokens ({fair.run_ms:.0f} ms each); "
        f"{fair.singles} single texts and {fair.lists} lists."
    )


def missed(results: Results) -> list[str]:
    """Return what is beside its target."""
    found = []
    for load in LOADS:
        target = TARGETS[load.kind, load.clients]
        ratio = results.ratio("infinity", load)
        if ratio is not None and ratio < target:
            found.append(f"{load.kind}, {load.clients} clients: ×{ratio:.2f}, target {target:g}")
    merged = results.ratio("one by one", Load("short", 64))
    if merged is not None and merged < _MERGED_TARGET:
        found.append(f"merging, short, 64 clients: ×{merged:.2f}, target {_MERGED_TARGET:g}")
    peer, ours = results.processes.get("infinity"), results.processes["kit"]
    if peer is not None:
        for title, part, target in (
            ("start", ours.start_seconds / peer.start_seconds, _START_TARGET),
            ("memory", ours.memory_mb / peer.memory_mb, _MEMORY_TARGET),
        ):
            if part > target:
                found.append(f"{title}: 1/{1 / part:.1f} of infinity's, target 1/{1 / target:.0f}")
    runs = results.fairness.p99_ms / results.fairness.run_ms
    if runs > _FAIRNESS_TARGET:
        found.append(f"single texts beside lists: {runs:.1f} runs, target {_FAIRNESS_TARGET:g}")
    return found


def as_json(results: Results) -> str:
    """Return everything, every round of it."""
    value = {
        "cpu": results.cpu,
        "load_average": results.load_average,
        "labels": dict(results.labels),
        "cells": [
            {"server": name, **asdict(load), **asdict(cell)}
            for (name, load), cell in results.cells.items()
        ],
        "processes": {name: asdict(process) for name, process in results.processes.items()},
        "fairness": asdict(results.fairness),
    }
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def _number(value: float | None, mark: str = "") -> str:
    return "—" if value is None else f"{mark}{value:.2f}"
