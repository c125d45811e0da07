"""Render the settings page from the JSON Schema of an environment's file."""

import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from embedding_kit.settings.base import DURATION_ALLOWED
from stacks.descriptions import describe, is_list, kinds

_HEAD = """# Settings

The settings of `environments/NAME.toml`; a new file is a new environment. Synth validates all of
them: an error names the file, the key, the value found and the values allowed. Editors
with a TOML language server complete and explain the settings by `environment.schema.json`.
Examples: [`dev.toml`](../environments/dev.toml) and
[`production.toml`](../environments/production.toml).

| type | values |
|---|---|
| duration | a whole number and a unit of ms, s, m, h or d, such as `"30s"` |
| ARN | of the resource that the description names, in text |
"""

#: Longer lists of values are whole in the schema and in the error.
_LONGEST = 70
_DOCS = Path(__file__).parent
_HEADING = re.compile(r"^#{2,4} (.+)$", re.MULTILINE)
_TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SECTION = 2
_TOP = "At the top of the file"
#: Tables whose settings are the first ones of `[model]`; a test compares them.
_AS_MODEL = ("reranker", "sparse", "standby")


def settings_page(schema: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    sections = "\n".join(_section("", schema, _TOP, level=2))
    return "\n".join([_HEAD, sections]) + "\n"


def anchor(title: str) -> str:
    """Return the anchor that the site and the repository's host give a title."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _section(path: str, table: dict[str, Any], title: str, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {title}\n"
    if level == _SECTION and path:
        yield f"{table['description'].splitlines()[0]}\n"
    tables = {name: _tables(setting) for name, setting in _in_order(table)}
    rows = page_rows(table)
    if path in _AS_MODEL:
        own = {"kind"} & table["properties"].keys()
        names = ", ".join(f"`{name}`" for name in table["properties"] if name not in own)
        yield f"As in [`[model]`](#model): {names}.\n"
        rows = [row for row in rows if row.split("`")[1] in own]
    if rows:
        yield "\n".join(["|setting|type|default|description|", "|---|---|---|---|", *rows, ""])
    if level == _SECTION and path in _examples():
        yield f"[An example]({_examples()[path]}).\n"
    for name, fields_by_kind in tables.items():
        key = f"{path}.{name}" if path else name
        heading = f"`[[{key}]]`" if is_list(table["properties"][name]) else f"`[{key}]`"
        for kind, group in fields_by_kind.items():
            if key in _AS_MODEL:
                group["description"] = table["properties"][name]["description"]
            full = f'{heading} with `kind = "{kind}"`' if len(fields_by_kind) > 1 else heading
            yield from _section(key, group, full, level=min(level + (1 if path else 0), 4))


@cache
def _examples() -> dict[str, str]:
    """Return the first section of a page that has an example of each table, for a link."""
    names: dict[str, str] = {}
    for page in sorted(_DOCS.glob("*.md")):
        titles = _HEADING.split(page.read_text("utf-8"))
        for title, text in zip(titles[1::2], titles[2::2], strict=True):
            for example in _TOML.findall(text):
                for name in tomllib.loads(example):
                    names.setdefault(name, f"{page.name}#{anchor(title)}")
    return names


def page_rows(table: dict[str, Any]) -> list[str]:
    """Return a row for each setting of a table that is no table itself."""
    return [
        "|" + "|".join(cell.replace("|", "\\|") for cell in cells) + "|"
        for name, setting in _in_order(table)
        # The heading has the kind.
        if not _tables(setting) and "const" not in setting
        for cells in [(f"`{name}`", _type(setting), _default(setting), _first_sentence(setting))]
    ]


def _in_order(table: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the settings as their class declares them, the required ones first."""
    required = table.get("required", ())
    return sorted(table["properties"].items(), key=lambda pair: pair[0] not in required)


def _tables(setting: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a setting, or of each entry of a list."""
    return kinds(setting["items"] if is_list(setting) else setting)


def _type(setting: dict[str, Any]) -> str:
    """Return a setting's type in a word or two."""
    words = describe(setting)
    prefix = "list of " if is_list(setting) else ""
    words = words.partition(", each ")[2] if prefix else words
    if words == DURATION_ALLOWED:
        return f"{prefix}duration"
    if words.startswith("one of "):
        values = words.removeprefix("one of ").split(", ")
        return ", ".join(values if len(words) <= _LONGEST else [*values[:4], "…", values[-1]])
    for number in ("a whole number", "a number"):
        if words.startswith(number):
            bounds = words.removeprefix(number).strip()
            return prefix + (bounds.removeprefix("from ").replace(" to ", "–") or "number")
    if words in {"true or false", "a path", "a table of text"}:
        return words.removeprefix("a ")
    # With alternatives, it may be another text.
    return f"{prefix}{'ARN' if 'arn:' in words and '; ' not in words else 'text'}"


def _first_sentence(setting: dict[str, Any]) -> str:
    return re.split(r"[.;:] |\.$", str(setting["description"]))[0]


def _default(setting: dict[str, Any]) -> str:
    if "default" not in setting:
        return "required"
    default = setting["default"]
    return "–" if default in (None, [], {}) else f"`{json.dumps(default)}`"
