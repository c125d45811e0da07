"""The filters of S3 Vectors: which metadata a vector must have.

The grammar is that of
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-metadata-filtering.html. A filter
is checked here because S3 Vectors' own error names neither the mistake nor the allowed operators.
"""

from collections.abc import Callable
from typing import Any

from embedder.core.errors import InvalidFieldError
from embedder.http.json_types import JsonType, describe_value, quote_name

#: The longest name of a metadata key, in characters.
_KEY_CHARACTERS = 63
#: The deepest nesting of $and and $or. AWS names no limit; without one, a stack overflows.
_DEPTH = 16
_LOGICAL = ("$and", "$or")


def _is_primitive(value: object) -> bool:
    return isinstance(value, str | int | float)  # bool is an int


#: What operators compare with: in words, as a check, and as JSON Schema.
_Operand = tuple[str, Callable[[object], bool], dict[str, Any]]
_PRIMITIVE: _Operand = (
    "a string, a number or a boolean",
    _is_primitive,
    {"type": ["string", "number", "boolean"]},
)
_NUMBER: _Operand = (
    "a number",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    {"type": "number"},
)
_LIST: _Operand = (
    "a list of at least one string, number or boolean",
    lambda value: isinstance(value, list) and bool(value) and all(map(_is_primitive, value)),
    {"type": "array", "items": _PRIMITIVE[2], "minItems": 1},
)
_OPERATORS: dict[str, _Operand] = {
    "$eq": _PRIMITIVE,
    "$ne": _PRIMITIVE,
    "$gt": _NUMBER,
    "$gte": _NUMBER,
    "$lt": _NUMBER,
    "$lte": _NUMBER,
    "$in": _LIST,
    "$nin": _LIST,
    "$exists": ("true or false", lambda value: isinstance(value, bool), {"type": "boolean"}),
}
_NAMES = ", ".join((*_OPERATORS, *_LOGICAL))


class MetadataFilter(JsonType):
    """A filter, such as `{"$and": [{"language": "en"}, {"year": {"$gte": 2020}}]}`."""

    @property
    def allowed(self) -> str:
        return (
            'an object with one metadata key, such as {"year": {"$gte": 2020}}, or with one of '
            f"$and, $or. Operators: {_NAMES}"
        )

    @property
    def schema(self) -> dict[str, Any]:
        conditions = {
            "type": "object",
            "properties": {name: schema for name, (_, _, schema) in _OPERATORS.items()},
            "additionalProperties": False,
            "minProperties": 1,
        }
        # The reference is to this schema itself, wherever it is placed, because it has an `$id`.
        filters = {"type": "array", "items": {"$ref": "#"}, "minItems": 1}
        return {
            "$id": "urn:embedding-kit:metadata-filter",
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": dict.fromkeys(_LOGICAL, filters),
            "patternProperties": {
                f"^[^$][\\s\\S]{{0,{_KEY_CHARACTERS - 1}}}$": {"anyOf": [_PRIMITIVE[2], conditions]}
            },
            "additionalProperties": False,
        }

    def check(self, value: object, name: str) -> Any:
        _check(value, name, depth=0)
        return value


def _check(value: object, where: str, *, depth: int) -> None:
    """Check a filter; `where` is its place in the request, for the error."""
    if not isinstance(value, dict):
        raise _error(where, "must be an object", describe_value(value))
    if len(value) != 1:
        raise _error(where, "must have one key; combine conditions with $and", len(value))
    (key, condition), *_ = value.items()
    if key in _LOGICAL:
        _check_list(condition, f"{where}.{key}", depth=depth)
    elif key.startswith("$"):
        raise _error(where, "has an unknown operator", _shown(key))
    elif not 1 <= len(key) <= _KEY_CHARACTERS:
        rule = f"must name a metadata key of 1 to {_KEY_CHARACTERS} characters"
        raise _error(where, rule, len(key))
    elif isinstance(condition, dict):
        _check_operators(condition, f"{where}.{_shown(key)}")
    elif not _is_primitive(condition):
        rule = f"must be {_PRIMITIVE[0]}, or an object of operators"
        raise _error(f"{where}.{_shown(key)}", rule, describe_value(condition))


def _check_list(condition: object, where: str, *, depth: int) -> None:
    if not isinstance(condition, list) or not condition:
        raise _error(where, "must be a list of at least one filter", describe_value(condition))
    if depth == _DEPTH:
        raise _error(where, f"must be nested at most {_DEPTH} deep", "more")
    for position, nested in enumerate(condition):
        _check(nested, f"{where}[{position}]", depth=depth + 1)


def _check_operators(conditions: dict[str, Any], where: str) -> None:
    if not conditions:
        raise _error(where, "must have an operator", "none")
    for operator, operand in conditions.items():
        if operator not in _OPERATORS:
            raise _error(where, "has an unknown operator", _shown(operator))
        allowed, fits, _ = _OPERATORS[operator]
        if not fits(operand):
            raise _error(f"{where}.{operator}", f"must be {allowed}", describe_value(operand))


def _error(where: str, rule: str, found: object) -> InvalidFieldError:
    return InvalidFieldError(
        f'"{where}" {rule}; found {found}. Operators of a filter: {_NAMES}.',
        field=where.partition(".")[0],
    )


def _shown(key: str) -> str:
    return key if quote_name(key.removeprefix("$")).startswith('"') else quote_name(key)
