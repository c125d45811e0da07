"""Render the tables of the known models from the catalog and its measurements."""

from collections.abc import Iterator

from model_compiler.listing import measured_cells
from model_compiler.source.catalog import CATALOG, GROUPS, CatalogEntry, measurements

__all__ = ["models_tables", "prompts_table"]

_COLUMNS = (
    "model",
    "languages",
    "dimensions",
    "tokens",
    "MB",
    "start",
    "32 tokens",
    "256 tokens",
    "license",
    "choose it for",
)


def models_tables() -> str:
    """Return a table for each group of models, and the absolute times behind the ratios."""
    return "\n".join([*_reference(), *_groups()])


def prompts_table() -> str:
    """Return a table of the different sets of prompts, with the models that have them."""
    sets: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for entry in CATALOG:
        prompts = {**entry.own_prompts, **entry.prompts}
        if prompts:
            sets.setdefault(tuple(prompts.items()), []).append(entry.short_name)
    rows = ["| models | prompts |", "|---|---|"]
    for found, names in sets.items():
        texts = "<br>".join(f"{name}: {_code(text)}" for name, text in found)
        rows.append(f"| {', '.join(names)} | {texts} |")
    return "\n".join(rows)


def _reference() -> Iterator[str]:
    measured = measurements()
    times = measured.milliseconds
    if times:
        yield (
            f"all-MiniLM-L6-v2 took {times['start']:.0f} ms to start, {times['tokens_32']:.1f} ms "
            f"for 32 tokens and {times['tokens_256']:.1f} ms for 256: {measured.machine}."
        )
        yield ""


def _groups() -> Iterator[str]:
    for title, entries in GROUPS.items():
        rows = [dict(zip(_COLUMNS, _cells(entry), strict=True)) for entry in entries]
        if len({row["languages"] for row in rows}) == 1:  # the title names the language
            for row in rows:
                del row["languages"]
        yield f"## {title}\n"
        yield f"| {' | '.join(rows[0])} |"
        yield "|---" * len(rows[0]) + "|"
        for row in rows:
            yield f"| {' | '.join(row.values())} |"
        yield ""


def _cells(entry: CatalogEntry) -> Iterator[str]:
    star = "*" if entry.pin == "unverified" else ""
    yield f"[{entry.short_name}](https://huggingface.co/{entry.name}){star}"
    yield entry.languages
    yield ", ".join(map(str, entry.dimensions))
    yield f"{entry.max_tokens:,}" if entry.max_tokens else "–"
    yield from measured_cells(entry)
    yield entry.license.name
    yield entry.choose


def _code(text: str) -> str:
    """Return a text as code in a table's cell."""
    if not text:
        return "no prompt"
    return f"`{text}`".replace("\n", "\\n").replace("|", "\\|")
