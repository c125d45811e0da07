"""Types of JSON values: each checks a value and describes itself.

The same objects validate the requests and make the OpenAPI document, so the two cannot disagree. An
error names the field, the allowed values and the value found. It describes a value that may be a
user's text by its kind and length only.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import orjson

from embedder.core.errors import InvalidFieldError
from embedder.http.json_body import describe_value, quote_name

#: The longest list of names that an error spells out.
_LISTED = 40


class JsonType:
    """A kind of JSON value."""

    @property
    def allowed(self) -> str:
        """The allowed values, for an error message: "must be …"."""
        raise NotImplementedError

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of exactly the values that `check` takes."""
        raise NotImplementedError

    def check(self, value: object, name: str) -> Any:
        """Return the value as the embedder uses it, or raise `error`; `name` is the field's."""
        raise NotImplementedError

    def error(self, value: object, name: str) -> InvalidFieldError:
        """Make the error for a value that is not allowed."""
        return InvalidFieldError(
            f'"{name}" must be {self.allowed}; found {describe_value(value)}.', field=name
        )


class Boolean(JsonType):
    """True or false."""

    allowed = "true or false"
    schema: ClassVar[dict[str, Any]] = {"type": "boolean"}

    def check(self, value: object, name: str) -> bool:
        if value is True or value is False:
            return value
        raise self.error(value, name)


class Number(JsonType):
    """A number in a range; true and false are rejected."""

    kind = "number"
    words = "a number"
    types: tuple[type, ...] = (int, float)

    def __init__(self, minimum: float, maximum: float) -> None:
        self.minimum = minimum
        self.maximum = maximum

    @property
    def allowed(self) -> str:
        return f"{self.words} from {self.minimum} to {self.maximum}"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": self.kind, "minimum": self.minimum, "maximum": self.maximum}

    def check(self, value: Any, name: str) -> Any:
        # True is an int: the type itself must be one of these.
        if type(value) in self.types and self.minimum <= value <= self.maximum:
            return value
        raise self.error(value, name)


class Integer(Number):
    """A whole number in a range; true, false and 1.0 are rejected."""

    kind = "integer"
    words = "a whole number"
    types = (int,)


class Choice(JsonType):
    """One of a few values, all strings or all whole numbers.

    With `any_case`, `Left`, `left` and `LEFT` are the same, and `check` returns the listed one.
    """

    def __init__(
        self, values: tuple[str, ...] | tuple[int, ...], *, any_case: bool = False
    ) -> None:
        self.values = values
        self.any_case = any_case

    @property
    def allowed(self) -> str:
        shown = [str(orjson.dumps(value), "utf-8") for value in self.values[:_LISTED]]
        if len(self.values) > _LISTED:
            shown.append(f"… ({len(self.values)} in all)")
        return shown[0] if len(shown) == 1 else f"one of {', '.join(shown)}"

    @property
    def schema(self) -> dict[str, Any]:
        kind = "integer" if isinstance(self.values[0], int) else "string"
        if not self.any_case:
            return {"type": kind, "enum": list(self.values)}
        # JSON Schema has no case-insensitive enumeration.
        either = "|".join(
            "".join(
                f"[{c.upper()}{c.lower()}]" if c.isalpha() else re.escape(c) for c in str(value)
            )
            for value in self.values
        )
        return {"type": "string", "pattern": f"^({either})$"}

    def check(self, value: object, name: str) -> Any:
        # True equals 1: the type must fit too.
        if type(value) is type(self.values[0]):
            if value in self.values:
                return value
            if self.any_case:
                folded = str(value).lower()
                for candidate in self.values:
                    if str(candidate).lower() == folded:
                        return candidate
        raise self.error(value, name)

    def error(self, value: object, name: str) -> InvalidFieldError:
        """Return the error; it quotes the value if it looks like a name."""
        shown = quote_name(value) if isinstance(value, str) else describe_value(value)
        return InvalidFieldError(f'"{name}" must be {self.allowed}; found {shown}.', field=name)


class String(JsonType):
    """A string with a maximum length in characters."""

    def __init__(self, max_characters: int = 1024) -> None:
        self.max_characters = max_characters

    @property
    def allowed(self) -> str:
        return f"a string of at most {self.max_characters} characters"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.max_characters}

    def check(self, value: object, name: str) -> str:
        if isinstance(value, str) and len(value) <= self.max_characters:
            return value
        raise self.error(value, name)


class OneOf(JsonType):
    """A value of any of several types; the first that takes it decides."""

    def __init__(self, types: tuple[JsonType, ...]) -> None:
        self.types = types

    @property
    def allowed(self) -> str:
        return ", or ".join(kind.allowed for kind in self.types)

    @property
    def schema(self) -> dict[str, Any]:
        return {"anyOf": [kind.schema for kind in self.types]}

    def check(self, value: object, name: str) -> Any:
        for kind in self.types:
            try:
                return kind.check(value, name)
            except InvalidFieldError:
                continue
        raise self.error(value, name)


class Unsupported(JsonType):
    """A value that this model does not allow at all; `why` says why."""

    def __init__(self, why: str) -> None:
        self.why = why

    @property
    def allowed(self) -> str:
        return f"null or absent ({self.why})"

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "null"}

    def check(self, value: object, name: str) -> None:
        if value is not None:
            raise self.error(value, name)


class Field(NamedTuple):
    """One field of an object. A field that is null counts as absent, unless it is required."""

    name: str
    type: JsonType
    description: str
    required: bool = False
    default: Any = None


class Object(JsonType):
    """An object of known fields; an unknown field is an error, as it would silently do nothing."""

    def __init__(
        self, fields: tuple[Field, ...], *, rule: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.fields = fields
        self._names = ", ".join(f'"{field.name}"' for field in fields)
        #: A rule between fields, for the document: JSON Schema keywords.
        self.rule = rule

    @property
    def allowed(self) -> str:
        return f"an object with the fields {self._names}" if self.fields else "an empty object"

    @property
    def schema(self) -> dict[str, Any]:
        properties = {}
        for entry in self.fields:
            described = dict(entry.type.schema)
            if not entry.required and described.get("type") != "null":
                described = {"anyOf": [described, {"type": "null"}]}
            described["description"] = entry.description
            if entry.default is not None:
                described["default"] = entry.default
            properties[entry.name] = described
        return {
            "type": "object",
            "properties": properties,
            "required": [field.name for field in self.fields if field.required],
            "additionalProperties": False,
            **self.rule,
        }

    def check(self, value: object, name: str = "") -> dict[str, Any]:
        """Return every field's value by name; a field that is absent has its default."""
        if not isinstance(value, dict):
            raise self.error(value, name)
        checked: dict[str, Any] = {}
        known = 0
        for entry in self.fields:
            path = f"{name}.{entry.name}" if name else entry.name
            if entry.name in value:
                known += 1
                given = value[entry.name]
                if given is not None or entry.required:
                    checked[entry.name] = entry.type.check(given, path)
                    continue
            elif entry.required:
                raise InvalidFieldError(
                    f'"{path}" is missing; it must be {entry.type.allowed}. Found {_keys(value)}.',
                    field=path,
                )
            checked[entry.name] = entry.default
        if known != len(value):
            raise self._unknown(value, name)
        return checked

    def _unknown(self, value: dict[str, Any], name: str) -> InvalidFieldError:
        known = {field.name for field in self.fields}
        strange = next(key for key in value if key not in known)
        where = f' in "{name}"' if name else ""
        return InvalidFieldError(
            f"A field{where} is unknown: {quote_name(strange)}. Allowed: {self._names or 'none'}.",
            field=name or None,
        )


def _keys(value: dict[str, Any]) -> str:
    names = ", ".join(quote_name(key) for key in list(value)[:_LISTED])
    return f"the fields {names}" if names else "no field"
