"""The command `--list`: the catalog as a table or as JSON."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from model_compiler.source.catalog import CATALOG, CatalogEntry, measurements

__all__ = ["as_json", "as_table", "described", "measured_cells", "prompt_names"]

#: Stands for a value that does not exist or was not measured.
NOTHING = "–"

_COLUMNS = (
    "MODEL",
    "LANGUAGES",
    "DIMENSIONS",
    "TOKENS",
    "MB",
    "START",
    "32",
    "256",
    "LICENSE",
    "PROMPTS",
    "PINNED",
    "CHOOSE IT FOR",
)


def as_json() -> str:
    """Return a JSON array with an object for each model; a missing value is null."""
    values = [described(entry) for entry in CATALOG]
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def described(entry: CatalogEntry) -> dict[str, Any]:
    """Return what the catalog knows about a model, as JSON values."""
    measured = measurements().shapes.get(entry.shape)
    return {
        "name": entry.name,
        "family": entry.family,
        "languages": entry.languages,
        "dimensions": list(entry.dimensions),
        "max_tokens": entry.max_tokens,
        "license": {"name": entry.license.name, "url": entry.license.url},
        "prompts": {**entry.own_prompts, **entry.prompts},
        "default_prompt": entry.default_prompt,
        "revision": entry.repositories[0].revision,
        "pinned_by": entry.pin,
        "choose": entry.choose,
        "measured": dataclasses.asdict(measured) if measured else None,
    }


def as_table() -> str:
    """Return the table with a line for each model, and an explanation of its columns."""
    rows = [_COLUMNS, *(tuple(_cells(entry)) for entry in CATALOG)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_aligned(row, widths) for row in rows]
    return "\n".join([*lines, "", *_notes()]) + "\n"


def prompt_names(entry: CatalogEntry) -> list[str]:
    """Return the names of a model's prompts, from its files and its card."""
    return list({**entry.own_prompts, **entry.prompts})


def measured_cells(entry: CatalogEntry) -> list[str]:
    """Return the megabytes and the three ratios of a model's shape, or dashes."""
    measured = measurements().shapes.get(entry.shape)
    if measured is None:
        return [NOTHING] * 4
    ratios = (measured.start, measured.tokens_32, measured.tokens_256)
    # Two digits of a small ratio: a static model takes a hundredth.
    return [
        f"{measured.megabytes:.0f}",
        *(f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2g}" for ratio in ratios),
    ]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells).rstrip()


def _cells(entry: CatalogEntry) -> Iterator[str]:
    yield entry.short_name
    yield entry.languages
    yield ", ".join(map(str, entry.dimensions))
    yield str(entry.max_tokens or NOTHING)
    yield from measured_cells(entry)
    yield entry.license.name
    names = prompt_names(entry)
    yield f"{len(names)} prompts" if len(names) > 4 else ", ".join(names) or NOTHING
    yield entry.pin
    yield entry.choose


def _notes() -> Iterator[str]:
    yield "TOKENS is the limit of one text. MB is the size of the int8 artifact. START, 32 and 256"
    yield "are the CPU times of a start and of a text with so many tokens, as multiples of those of"
    yield "all-MiniLM-L6-v2, measured on a model of the same shape with random weights;"
    yield f"{NOTHING} means not measured."
    yield "PINNED: by hashes of the files, by a commit, or unverified: the newest is downloaded."
    yield "--json has the organizations, the prompts and the commits."
