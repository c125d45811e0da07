"""Writes the table of all settings from their types: `python -m embedding_kit.settings_table`."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from embedding_kit.environment import Environment
from embedding_kit.settings.base import format_duration
from embedding_kit.settings.words import annotation_of, item_of, tables, words

__all__ = ["settings_table"]

_HEAD = """# Settings

What `environments/NAME.toml` may say. `dev`, `staging` and `production` are shipped; a new file is
a new environment. Every setting is validated when the stacks are synthesized, and an error names
the file, the key, what was found and what is allowed.

This page is written by `python -m embedding_kit.settings_table`; a test holds it to the types.
"""


def settings_table() -> str:
    """Return the page, in Markdown."""
    return "\n".join([_HEAD, *_section("", Environment, "The environment itself", level=2)]) + "\n"


def _section(path: str, model: type[BaseModel], title: str, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {title}\n"
    yield f"{(model.__doc__ or '').splitlines()[0]}\n"
    plain: list[tuple[str, FieldInfo]] = []
    nested: list[tuple[str, FieldInfo, dict[str, type[BaseModel]]]] = []
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        kinds = tables(_held(field))
        if kinds:
            nested.append((name, field, kinds))
        else:
            plain.append((name, field))
    if plain:
        yield "| setting | allowed | default | what it says |\n|---|---|---|---|"
        for name, field in plain:
            cells = (f"`{name}`", words(annotation_of(field)), _default(field), field.description)
            yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
        yield ""
    for name, field, kinds in nested:
        key = f"{path}.{name}" if path else name
        listed = item_of(field.annotation) is not None
        heading = f"`[[{key}]]`" if listed else f"`[{key}]`"
        for kind, group in kinds.items():
            said = f'{heading} with `kind = "{kind}"`' if len(kinds) > 1 else heading
            yield from _section(key, group, said, level=min(level + (1 if path else 0), 4))


def _held(field: FieldInfo) -> Any:
    """Return what a field holds, or what each entry of it holds if it is a list."""
    return item_of(field.annotation) or field.annotation


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "must be set"
    if value is None or value in ((), {}):
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, timedelta):
        return f'`"{format_duration(value)}"`'
    if isinstance(value, str | Enum):
        return f'`"{value}"`'
    return f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(settings_table())
