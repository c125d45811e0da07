"""Render the tables of the known models from the catalog and its measurements."""

from collections.abc import Iterable, Iterator

from embedding_client._models import cells
from model_compiler.source.catalog import BENCHMARKS, CATALOG, CatalogEntry, described, measurements

_COLUMNS = (
    "model",
    "languages",
    "dimensions",
    "tokens",
    "MB",
    "memory",
    "32",
    "256",
    "search",
    "many",
    "license",
)


def models_table() -> str:
    """Return the table of all models, and where its numbers come from."""
    return "\n".join([*_rows(), "", *_sources()])


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


def _rows() -> Iterator[str]:
    """Yield the lines of the table, without spaces: its source is not for reading."""
    yield _row(_COLUMNS)
    yield _row(["---"] * len(_COLUMNS))
    group = ""
    for entry in CATALOG:
        if entry.group != group:
            group = entry.group
            yield _row([f"**{group}**", *[""] * (len(_COLUMNS) - 1)])
        yield _row(_cells(entry))


def _row(row: Iterable[str]) -> str:
    return f"|{'|'.join(row)}|"


def _cells(entry: CatalogEntry) -> Iterator[str]:
    facts = described(entry)
    shown = cells(facts)
    star = "*" if entry.pin == "unverified" else ""
    yield f"[{entry.short_name}](https://huggingface.co/{entry.name}){star}"
    yield entry.languages
    smallest = f"–{entry.dimensions[-1]}" if len(entry.dimensions) > 1 else ""
    yield f"{shown.pop('dims')}{smallest}"
    yield shown.pop("tokens")
    yield shown.pop("MB")
    memory = [f"{mb:,}" for mb in dict.fromkeys((facts["memory_mb"] or {}).values())]
    yield "–".join(memory[:: len(memory) - 1] if len(memory) > 1 else memory) or shown["memory"]
    del shown["memory"]
    yield from shown.values()
    yield entry.license.name


def _sources() -> Iterator[str]:
    measured = measurements()
    times = measured.milliseconds
    yield (
        f"all-MiniLM-L6-v2 took {times['tokens_32']:.1f} ms for 32 tokens and "
        f"{times['tokens_256']:.1f} ms for 256: {measured.machine}."
    )
    for name, key in (("search", "retrieval"), ("many", "multilingual")):
        facts = BENCHMARKS[key]
        yield f"{name.capitalize()}: {facts.title}, {facts.about}; {facts.source}, {facts.date}."


def _code(text: str) -> str:
    """Return a text as code in a table's cell."""
    if not text:
        return "no prompt"
    return f"`{text}`".replace("\n", "\\n").replace("|", "\\|")
