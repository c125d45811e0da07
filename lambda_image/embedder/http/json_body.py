"""A request's body, from bytes to a JSON object, and how errors speak of JSON values."""

import re
from typing import Any

import orjson

from embedder.core.errors import MalformedBodyError

#: A value that an error may quote: a name, too short and too plain to be a user's text.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,39}\Z")
_PERHAPS_KEYS = re.compile(rb'"\s*:')
#: Every JSON string of a document, in order, with the colon that makes it a key.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*:)?', re.DOTALL)


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a body, a JSON object with each key once, or raise a `MalformedBodyError`."""
    if not body or body.isspace():
        raise MalformedBodyError("The body is missing; it must be a JSON object. Found 0 bytes.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _not_json(body, error) from None
    if not isinstance(value, dict):
        raise MalformedBodyError(f"The body must be a JSON object; found {describe_value(value)}.")
    if has_repeated_key(body, value):
        raise MalformedBodyError(
            "The body has a key twice in one object; each key is allowed once."
        )
    return value


def has_repeated_key(body: bytes, value: dict[str, Any]) -> bool:
    """Return whether a JSON object has a key twice, of which orjson, in `value`, keeps the last."""
    # There are never more keys than quotes before colons: mostly, counting those is enough.
    if len(_PERHAPS_KEYS.findall(body)) == len(value):
        return False
    return sum(1 for match in _STRINGS.finditer(body) if match.lastindex) != _count_keys(value)


def _count_keys(value: dict[str, Any]) -> int:
    # Without recursion: JSON may be nested deeper than Python's stack allows.
    keys = 0
    waiting: list[dict[str, Any] | list[Any]] = [value]
    while waiting:
        container = waiting.pop()
        keys += len(container) if isinstance(container, dict) else 0
        items = container.values() if isinstance(container, dict) else container
        waiting += [item for item in items if isinstance(item, dict | list)]
    return keys


def _not_json(body: bytes, error: orjson.JSONDecodeError) -> MalformedBodyError:
    if body.startswith(b"\x1f\x8b"):
        return MalformedBodyError(
            'The body is gzip, and the header "content-encoding: gzip" does not say so. Send the '
            "header, or the JSON as it is."
        )
    try:
        body.decode()
    except UnicodeDecodeError as broken:
        return MalformedBodyError(
            f"The body must be UTF-8; byte {broken.start} is not ({broken.reason})."
        )
    # The library's message has the location and the kind of error, and quotes nothing.
    return MalformedBodyError(
        f"The body must be JSON; found {error.msg} at line {error.lineno}, column {error.colno}. "
        "NaN, Infinity, numbers beyond 64 bits' range and lone surrogates are not JSON."
    )


def describe_value(value: object) -> str:
    """Describe a value without quoting it: a string is described by its length."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value!r}"
        case str():
            return f"a string of {len(value)} characters"
        case list():
            return f"a list of {len(value)} items"
        case _:
            return "an object"


def quote_name(name: str) -> str:
    """Quote a string that looks like a name; describe another by its length."""
    return f'"{name}"' if _NAME.match(name) else f"a string of {len(name)} characters"
