"""A request's body, from bytes to a JSON object, and types of JSON values.

Each type checks a value and describes itself. The same objects validate the requests and make the
OpenAPI document, so the two cannot disagree. An error names the field, the allowed values and the
value found. It describes a value that may be a user's text by its kind and length only.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import orjson

from embedder.core.errors import InvalidFieldError, MalformedBodyError

#: A value that an error may quote: a name, too short and too plain to be a user's text.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,39}\Z")
_PERHAPS_KEYS = re.compile(rb'"\s*:')
#: Every JSON string of a document, in order, with the colon that makes it a key.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*:)?', re.DOTALL)
#: The longest list of names that an error spells out.
_LISTED = 40


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

    schema_type = "number"
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
        return {"type": self.schema_type, "minimum": self.minimum, "maximum": self.maximum}

    def check(self, value: Any, name: str) -> Any:
        # True is an int: the type itself must be one of these.
        if type(value) in self.types and self.minimum <= value <= self.maximum:
            return value
        raise self.error(value, name)


class Integer(Number):
    """A whole number in a range; true, false and 1.0 are rejected."""

    schema_type = "integer"
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
        schema_type = "integer" if isinstance(self.values[0], int) else "string"
        if not self.any_case:
            return {"type": schema_type, "enum": list(self.values)}
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
        return ", or ".join(member.allowed for member in self.types)

    @property
    def schema(self) -> dict[str, Any]:
        return {"anyOf": [member.schema for member in self.types]}

    def check(self, value: object, name: str) -> Any:
        for member in self.types:
            try:
                return member.check(value, name)
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
    """An object of known fields; an unknown field is an error, as it would silently do nothing.

    One that is null counts as absent, too.
    """

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
            "additionalProperties": {"type": "null"},
            **self.rule,
        }

    def check(self, value: object, name: str = "") -> dict[str, Any]:
        """Return every field's value by name; a field that is absent has its default."""
        if not isinstance(value, dict):
            raise self.error(value, name)
        checked: dict[str, Any] = {}
        recognized = 0
        for entry in self.fields:
            path = f"{name}.{entry.name}" if name else entry.name
            if entry.name in value:
                recognized += 1
                field_value = value[entry.name]
                if field_value is not None or entry.required:
                    checked[entry.name] = entry.type.check(field_value, path)
                    continue
            elif entry.required:
                raise InvalidFieldError(
                    f'"{path}" is missing; it must be {entry.type.allowed}. Found {_keys(value)}.',
                    field=path,
                )
            checked[entry.name] = entry.default
        if recognized != len(value):
            self._check_unknown(value, name)
        return checked

    def _check_unknown(self, value: dict[str, Any], name: str) -> None:
        names = {field.name for field in self.fields}
        # A null does nothing anywhere: clients write all fields of their model.
        unknown = (key for key, item in value.items() if key not in names and item is not None)
        strange = next(unknown, None)
        if strange is None:
            return
        where = f' in "{name}"' if name else ""
        raise InvalidFieldError(
            f"A field{where} is unknown: {quote_name(strange)}. Allowed: {self._names or 'none'}.",
            field=name or None,
        )


def _keys(value: dict[str, Any]) -> str:
    names = ", ".join(quote_name(key) for key in list(value)[:_LISTED])
    return f"the fields {names}" if names else "no field"
