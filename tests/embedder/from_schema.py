"""Hypothesis strategies for requests that an OpenAPI schema allows or nearly allows."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

Schema = dict[str, Any]
#: Values of every kind, for schemas without a type and for invalid requests.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["", " ", "left", "query", "float", "\u2028", "\x00", "a" * 200, "w " * 40])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=10,
)


def matching(schema: Schema) -> st.SearchStrategy[Any]:
    """Return a strategy for values that a schema allows."""
    if "anyOf" in schema:
        return st.one_of([matching(option) for option in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return _KINDS[schema["type"]](schema)


def _objects(schema: Schema) -> st.SearchStrategy[Any]:
    # The document requires exactly one of some fields, with a value other than null.
    choices = [set(option["required"]) for option in schema.get("oneOf", [{"required": []}])]
    either = set().union(*choices)
    always = set(schema["required"])
    properties = {name: matching(option) for name, option in schema["properties"].items()}

    def objects(chosen: set[str]) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries(
            {name: properties[name] for name in sorted(always)}
            | {name: properties[name].filter(lambda x: x is not None) for name in sorted(chosen)},
            optional={
                name: option for name, option in properties.items() if name not in always | either
            },
        )

    tables = st.sampled_from(choices).flatmap(objects)
    if "not" not in schema:
        return tables
    excluded = Draft202012Validator(schema["not"])
    return tables.filter(lambda value: not excluded.is_valid(value))


def _arrays(schema: Schema) -> st.SearchStrategy[Any]:
    return st.lists(matching(schema["items"]), min_size=schema.get("minItems", 0), max_size=5)


def _strings(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.get("pattern", r"\S") != r"\S":
        return st.from_regex(schema["pattern"], fullmatch=True)
    longest = min(schema.get("maxLength", 30), 30)
    texts = st.text(min_size=schema.get("minLength", 0), max_size=longest)
    return texts.filter(str.strip) if "pattern" in schema else texts


_KINDS: dict[str, Callable[[Schema], st.SearchStrategy[Any]]] = {
    "object": _objects,
    "array": _arrays,
    "string": _strings,
    "integer": lambda schema: st.integers(schema["minimum"], schema["maximum"]),
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
}


@st.composite
def nearly_matching(draw: st.DrawFn, schema: Schema) -> Any:
    """Draw a value that the schema allows, and change one part of it."""
    value = copy.deepcopy(draw(matching(schema)))
    container = draw(st.sampled_from(list(_containers(value))))
    keys = list(container) if isinstance(container, dict) else list(range(len(container)))
    change = draw(st.sampled_from(["replace", "remove", "add"])) if keys else "add"
    if change == "remove":
        del container[draw(st.sampled_from(keys))]
    elif change == "replace":
        container[draw(st.sampled_from(keys))] = draw(JSON)
    elif isinstance(container, dict):
        container[draw(st.text(max_size=10))] = draw(JSON)
    else:
        container.append(draw(JSON))
    return value


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


def any_body(schema: Schema) -> st.SearchStrategy[Any]:
    """Return a strategy for bodies: allowed, nearly allowed, any JSON, and any bytes."""
    return st.one_of(
        matching(schema), matching(schema), nearly_matching(schema), JSON, st.binary(max_size=40)
    )
