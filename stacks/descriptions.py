"""The settings' JSON Schema, and descriptions of allowed values for errors and the docs."""

import json
import re
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter

from embedding_kit.settings.base import DURATION_ALLOWED, format_duration

_Schema = dict[str, Any]

_TIMEDELTA = TypeAdapter(timedelta)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NUMBERS = {"integer": "a whole number", "number": "a number"}


def export_schema(model: type[BaseModel]) -> _Schema:
    """Return the JSON Schema of a model's file: without references and excluded fields."""
    document = model.model_json_schema()
    definitions = document.pop("$defs", {})
    for name, field in model.model_fields.items():
        if field.exclude:
            del document["properties"][name]
            document["required"] = [key for key in document["required"] if key != name]
    inlined: _Schema = _inline(document, definitions)
    return {"$schema": "http://json-schema.org/draft-07/schema#", **inlined}


def find(schema: _Schema, location: tuple[str | int, ...]) -> tuple[str, _Schema, tuple[str, ...]]:
    """Follow a validation error's location from a table's schema to the setting.

    Return its dotted name, as in a TOML file; its schema, empty if it does not exist; and the
    settings of the same table.
    """
    key, siblings = "", ()
    keys: _Schema = {}
    for step in location:
        tables = kinds(schema)
        if step == "[key]":  # The key itself is wrong.
            schema = keys
        elif isinstance(step, int):
            key, schema = f"{key}[{step}]", _value(schema).get("items", {})
        elif step in tables and len(tables) > 1:
            schema = tables[step]  # The tag of a union is not a key of the file.
        else:
            key = f"{key}.{_quoted(step)}" if key else _quoted(step)
            value = _value(schema)
            keys = value.get("propertyNames", {})
            if "properties" in value:
                siblings = tuple(value["properties"])
                schema = value["properties"].get(step, {})
            else:
                schema = value.get("additionalProperties") or _of_patterns(value)
    return key, schema, siblings


def kinds(schema: _Schema) -> dict[str, _Schema]:
    """Return the tables that a setting may be: by `kind` for a union, else under ""."""
    value = _value(schema)
    if "properties" in value:
        return {"": value}
    tables = [table for table in value.get("anyOf", []) if "properties" in table]
    return {table["properties"]["kind"]["const"]: table for table in tables}


def is_list(schema: _Schema) -> bool:
    """Return whether a setting is a list."""
    return _value(schema).get("type") == "array"


def describe(schema: _Schema) -> str:
    """Describe the allowed values of a setting."""
    value = _value(schema)
    if "allowed" in value:
        return str(value["allowed"])
    if value.get("type") in _NUMBERS:
        return _NUMBERS[value["type"]] + _range(value)
    if value.get("type") == "array":
        return f"a list{_entries(value)}, each {describe(value['items'])}"
    choices = value.get("enum") or ([value["const"]] if "const" in value else list(kinds(value)))
    if choices and choices != [""]:
        return "one of " + ", ".join(f'"{choice}"' for choice in choices)
    plain = {
        "boolean": "true or false",
        "string": "a path" if value.get("format") == "path" else "text",
    }
    texts = isinstance(value.get("additionalProperties"), dict) or _of_patterns(value)
    table_text = "a table of text" if texts else "a table"
    return plain.get(value.get("type", ""), table_text)


def _of_patterns(value: _Schema) -> _Schema:
    """Return the schema of a table's values, whose keys must have a form."""
    return next(iter(value.get("patternProperties", {}).values()), {})


def _range(value: _Schema) -> str:
    low, high = value.get("minimum"), value.get("maximum")
    above, below = value.get("exclusiveMinimum"), value.get("exclusiveMaximum")
    if above is not None:
        return f" above {above}" + (f" and below {below}" if below is not None else "")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f" from {low} up" if low is not None else ""


def _entries(value: _Schema) -> str:
    least, most = value.get("minItems", 0), value.get("maxItems")
    if most is None:
        return f" of {least} or more" if least else ""
    return f" of {least} to {most}" if least else f" of up to {most}"


def _value(schema: _Schema) -> _Schema:
    """Return the schema of an optional setting's value."""
    members = [member for member in schema.get("anyOf", []) if member.get("type") != "null"]
    return members[0] if len(members) == 1 else schema


def _inline(node: Any, definitions: _Schema) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _inline({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions)
    if "discriminator" in node:
        tables = [_with_kind(table) for table in _inline(node["oneOf"], definitions)]
        union = {k: v for k, v in node.items() if k not in {"discriminator", "oneOf"}}
        return {**union, "anyOf": tables}
    inlined = {key: _inline(value, definitions) for key, value in node.items() if key != "title"}
    if "patternProperties" in node:
        inlined["additionalProperties"] = False
    if "default" in node and node.get("allowed") == DURATION_ALLOWED:
        # pydantic writes a duration's default in ISO 8601.
        inlined["default"] = format_duration(_TIMEDELTA.validate_python(node["default"]))
    return inlined


def _with_kind(table: _Schema) -> _Schema:
    names = [name for name in table.get("required", []) if name != "kind"]
    return {**table, "required": ["kind", *names]}


def _quoted(name: str) -> str:
    """Format a key as TOML does: bare if possible, else in quotes."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)
