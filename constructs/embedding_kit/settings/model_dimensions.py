"""The dimensions of the models of the catalog, which `docs/generate.py` writes from the catalog.

The constructs cannot import the compiler: synth does not need its dependencies.
"""

import json
from functools import cache
from pathlib import Path

__all__ = ["known_dimensions"]

_FILE = Path(__file__).with_name("model_dimensions.json")


def known_dimensions(name: str) -> tuple[int, ...]:
    """Return a model's dimensions, the full one first; empty if the catalog has no such model.

    Args:
        name: Its name, with or without the organization, in any case.
    """
    return _table().get(name.lower(), ())


@cache
def _table() -> dict[str, tuple[int, ...]]:
    listed = json.loads(_FILE.read_text(encoding="utf-8"))
    table = {name.lower(): tuple(dimensions) for name, dimensions in listed.items()}
    return {name.rpartition("/")[2]: dimensions for name, dimensions in table.items()} | table
