"""Render the settings page from the JSON Schema of an environment's file."""

import json
from collections.abc import Iterator
from typing import Any

from embedding_kit.settings.descriptions import describe, is_list, kinds

__all__ = ["settings_page"]

_HEAD = """# Settings

The settings of `environments/NAME.toml`. The repository has `dev`, `staging` and `production`; a
new file is a new environment. All settings are validated when the stacks are synthesized. Errors
name the file, the key, the value found and the values allowed.

Each file names `environment.schema.json` in its first line, so that editors with a TOML language
server (such as Taplo) complete and check the settings.

`python docs/generate.py` writes this page and the schema from the types in
`constructs/embedding_kit/settings/`.
"""

_TOP = "At the top of the file"


def settings_page(schema: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    return "\n".join([_HEAD, *_contents(schema), *_section("", schema, _TOP, level=2)]) + "\n"


def _contents(schema: dict[str, Any]) -> Iterator[str]:
    """Yield a table with a row for each table of the file."""
    yield "| table | description | settings |\n|---|---|---|"
    tables = {name: kinds(field) for name, field in schema["properties"].items()}
    plain = ", ".join(f"`{name}`" for name, found in tables.items() if not found)
    yield f"| [at the top](#{_TOP.lower().replace(' ', '-')}) | Where it is deployed. | {plain} |"
    for name, found in tables.items():
        keys = dict.fromkeys(key for group in found.values() for key in group["properties"])
        settings = ", ".join(f"`{key}`" for key in keys)
        if found:
            description = schema["properties"][name]["description"]
            yield f"| `[{name}]` | {description} | {settings} |"
    yield ""


def _section(path: str, table: dict[str, Any], title: str, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {title}\n"
    yield f"{table['description'].splitlines()[0]}\n"
    tables = {name: _tables(setting) for name, setting in table["properties"].items()}
    plain = [name for name in tables if not tables[name]]
    if plain:
        yield "| setting | allowed | default | description |\n|---|---|---|---|"
        for name in plain:
            setting = table["properties"][name]
            cells = (f"`{name}`", describe(setting), _default(setting), setting["description"])
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        yield ""
    for name, found in tables.items():
        key = f"{path}.{name}" if path else name
        heading = f"`[[{key}]]`" if is_list(table["properties"][name]) else f"`[{key}]`"
        for kind, group in found.items():
            full = f'{heading} with `kind = "{kind}"`' if len(found) > 1 else heading
            yield from _section(key, group, full, level=min(level + (1 if path else 0), 4))


def _tables(setting: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a setting, or of each entry of a list."""
    return kinds(setting["items"] if is_list(setting) else setting)


def _default(setting: dict[str, Any]) -> str:
    if "default" not in setting:
        return "required"
    default = setting["default"]
    return "unset" if default in (None, [], {}) else f"`{json.dumps(default)}`"
