"""The command `list`: the catalog as a table or as JSON."""

import json
from collections.abc import Iterator
from typing import Any

from model_compiler.source.catalog import CATALOG, CatalogEntry, measurements


def as_json() -> str:
    """Return a JSON array with an object for each model; a missing value is null."""
    values = [described(entry) for entry in CATALOG]
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def described(entry: CatalogEntry) -> dict[str, Any]:
    """Return what the catalog knows about a model, as JSON values."""
    measured = measurements().shapes.get(entry.shape)
    return {
        "name": entry.name,
        "group": entry.group,
        "choose": entry.choose,
        "languages": entry.languages,
        "dimensions": list(entry.dimensions),
        "max_tokens": entry.max_tokens,
        "license": entry.license.name,
        "megabytes": measured and measured.megabytes,
        "memory_mb": measured and {str(key): mb for key, mb in measured.memory_mb.items()},
        "tokens_32": measured and measured.tokens_32,
        "tokens_256": measured and measured.tokens_256,
        "quality": dict(entry.quality),
        "family": entry.family,
        "prompts": {**entry.own_prompts, **entry.prompts},
        "default_prompt": entry.default_prompt,
        "revision": entry.repositories[0].revision,
        "pinned_by": entry.pin,
    }


def as_table() -> str:
    """Return a line for each model: how it is pinned, and when to choose it."""
    width = max(len(entry.short_name) for entry in CATALOG)
    return "".join(f"{line}\n" for line in _lines(width))


def _lines(width: int) -> Iterator[str]:
    yield f"{'MODEL':{width}}  {'PINNED':10}  CHOOSE IT FOR"
    for entry in CATALOG:
        yield f"{entry.short_name:{width}}  {entry.pin:10}  {entry.choose}"
    yield ""
    yield "PINNED: by hashes of the files, by a commit, or unverified: the newest is downloaded."
    yield "--json has the other facts. `embed models` has them as a table."
