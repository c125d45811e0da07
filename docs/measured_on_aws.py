"""Render what `scripts/prove` has measured on AWS."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tools.prove.measure import LENGTHS, SIZES

_FILE = Path(__file__).with_name("measured-on-aws.json")
_FIRST = "first request after it"
#: Steps that not every environment has: the key of their values, and what they measure.
_OTHERS = {
    ("restores", "restore_ms"): "SnapStart restore",
    ("provisioned", "init_ms"): "start of a provisioned environment",
    ("search", "ms"): "search of 8 tokens",
}


def measured_table(file: Path = _FILE) -> str:
    """Return a table for each measured environment; before the first, what will be measured."""
    if not file.exists():
        return _unmeasured()
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return "\n\n".join("\n".join(_environment(*item)) for item in measured.items())


def _unmeasured() -> str:
    sizes = " and ".join(f"{size:,}" for size in SIZES)
    lengths = ", ".join(map(str, LENGTHS))
    return (
        f"Not measured yet. `scripts/prove` will measure at {sizes} MB: start, {_FIRST}, requests "
        f"of {lengths} tokens and of the model's limit, also for a caller, "
        f"{', '.join(_OTHERS.values())}."
    )


def _environment(name: str, found: dict[str, Any]) -> Iterator[str]:
    sizes, callers = [found[f"memory {size}"] for size in SIZES], found["callers"]
    yield (
        f"`{name}`: {found['model']} in {found['region']}, {found['date']}. Medians in "
        "milliseconds, in brackets the least and the most."
    )
    yield ""
    rows = [
        ("start", [*(_cell(size, "init_ms") for size in sizes), "–"]),
        (_FIRST, [*(_cell(size, "first_ms") for size in sizes), "–"]),
    ]
    groups = [each.get("requests") for each in (*sizes, callers)]
    for n in range(max((len(group) for group in groups if group), default=0)):
        tokens = max(group[n]["tokens"] for group in groups if group)
        cells = [
            _cell(group[n], "ms") if group else _refused(each)
            for each, group in zip((*sizes, callers), groups, strict=True)
        ]
        rows.append((f"{tokens:,} tokens", cells))
    columns = [*(f"{size:,} MB" for size in SIZES), f"for a caller, {found['memory_mb']:,} MB"]
    yield f"|  | {' | '.join(columns)} |"
    yield "|---" * (len(SIZES) + 2) + "|"
    for row, cells in rows:
        yield f"| {row} | {' | '.join(cells)} |"
    for (step, key), text in _OTHERS.items():
        if step in found:
            yield ""
            yield f"{len(found[step][key])} × {text}: {_cell(found[step], key)}."


def _cell(found: dict[str, Any], key: str) -> str:
    values = found.get(key)
    if not values:
        return _refused(found)
    return f"{median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def _refused(found: dict[str, Any]) -> str:
    return f"refused: {found['refused']}" if "refused" in found else "–"
