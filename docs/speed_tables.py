"""Render what `scripts/bench pages` measured as tables of the pages."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from operations.cost.workload import Speed
from tools.bench.report import KIT, as_table, from_json

_FOLDER = Path(__file__).parent
GEMMA, MINILM = "embeddinggemma-300m", "all-MiniLM-L6-v2"
#: What the table of the server shows; its picture has more.
_LOADS = ("short texts, 1 client", "short texts, 64 clients", "mixed texts, 1 client",
          "mixed texts, 64 clients", "start to ready", "memory after the load")  # fmt: skip


def _runs() -> dict[str, Any]:
    """Return the runs of models by their names."""
    results: dict[str, Any] = json.loads((_FOLDER / "performance.json").read_text("utf-8"))
    return results


def model_table(name: str) -> str:
    """Return the machine of a model's run, its table, and how it was measured."""
    return as_table(*from_json(json.dumps(_runs()[name])))


def gemma_speed() -> Speed:
    """Return Embedding Kit's times of one text of EmbeddingGemma's shape, in milliseconds."""
    times = {row["name"]: row["values"][KIT] for row in _runs()[GEMMA]["rows"]}
    lengths = {name: re.fullmatch(r"(\d+) tokens", name) for name in times}
    return Speed(
        points=tuple((int(tokens[1]), times[name]) for name, tokens in lengths.items() if tokens),
        source="docs/performance.md",
    )


def server_table() -> str:
    """Return the table of the server, and its machine."""
    run, machine = from_json((_FOLDER / "server.json").read_text("utf-8"))
    shown = [replace(row, targets={}) for row in run.rows if row.name in _LOADS]
    return as_table(replace(run, rows=shown), machine)
