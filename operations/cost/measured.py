"""Measured times of a model: the compiler's own table, or a report of `scripts/bench`."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedding_kit.settings import Model
from model_compiler.source.catalog import Measurement, find, measurements
from operations.cost.duration import Speed
from operations.cost.errors import CostError

__all__ = ["catalog_speed", "report_speed"]

_LENGTH = re.compile(r"(\d+) tokens")
#: The column of Embedding Kit in a report.
_KIT = "kit"


def catalog_speed(model: Model, *, slower: float = 1.0) -> Speed:
    """Return the times of a model's shape, from the table that `scripts/bench shapes` writes.

    Args:
        model: The environment's model.
        slower: The factor of the processor.

    Raises:
        CostError: The table has no such model.
    """
    table = measurements()
    entry = find(model.name)
    shape = table.shapes.get(entry.shape) if entry and not model.folder else None
    if shape is None:
        raise CostError(
            f"there are no measured times of {model.folder or model.name}; allowed: a model of the "
            "catalog that is listed with times (docs/models.md), --measured FILE with a report of "
            "scripts/bench, --milliseconds for one request, or --from-endpoint"
        )
    points = tuple(
        (length, table.milliseconds[key] * _ratio(shape, key))
        for length, key in ((32, "tokens_32"), (256, "tokens_256"))
    )
    return Speed(points=points, source=f"{table.machine}, measured.json", slower=slower)


def report_speed(file: Path, *, slower: float = 1.0) -> Speed:
    """Return the times of a report: `bench.json`, or `FAMILY.json` of `scripts/bench --family`.

    Args:
        file: The report.
        slower: The factor of the processor.

    Raises:
        CostError: The file cannot be read, or has no such times.
    """
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
        points = sorted(_points(report["rows"]))
    except OSError as error:
        raise CostError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CostError(f"{file} is no report of scripts/bench") from None
    if not points:
        raise CostError(f'{file} has no row such as "128 tokens" with a time of Embedding Kit')
    machine = report.get("machine")
    name = machine.get("cpu") if isinstance(machine, Mapping) else machine
    return Speed(points=tuple(points), source=f"{name or 'unknown'}, {file.name}", slower=slower)


def _points(rows: list[dict[str, Any]]) -> list[tuple[int, float]]:
    found = []
    for row in rows:
        length = _LENGTH.fullmatch(row["name"])
        time = row["values"].get(_KIT)
        if length and time:
            found.append((int(length[1]), float(time)))
    return found


def _ratio(shape: Measurement, key: str) -> float:
    return float(getattr(shape, key))
