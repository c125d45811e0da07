"""The settings' base class (frozen, strict, no unknown keys), durations, and rule errors."""

import re
from datetime import timedelta
from typing import Annotated, Any, Protocol, TypeVar, cast, runtime_checkable

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError

#: Milliseconds per unit, largest unit first.
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_DURATION = re.compile(r"([1-9][0-9]*)(ms|s|m|h|d)")
#: More digits than any setting needs; a `timedelta` overflows soon after.
_DURATION_DIGITS = 9
DURATION_ALLOWED = 'a whole number and a unit of ms, s, m, h or d, such as "30s"'


class Settings(BaseModel):
    """A group of settings. Frozen; an unknown key or a value of another type is an error."""

    # Strict: TOML has types, so "2048" for a number is an error and not converted.
    # TOML also allows `inf` and `nan`, which no setting accepts.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def rule_error(rule: str, *, found: object, allowed: str) -> PydanticCustomError:
    """Build the error of a rule that spans several values or that a type cannot express.

    It is a `ValueError`; each `check_` function of the settings raises it.

    Args:
        rule: The broken rule, as a sentence without a full stop.
        found: The value or values that break the rule.
        allowed: The values that are accepted.
    """
    context: dict[str, object] = {"rule": rule, "found": found, "allowed": allowed}
    return PydanticCustomError("rule", "{rule}; found: {found}; allowed: {allowed}", context)


def optional(description: str, **more: Any) -> Any:
    """Return the field of a setting that is None if it is not given."""
    return Field(default=None, description=description, **more)


class allowed:  # noqa: N801 - an annotation, written as one
    """Describe a field's allowed values, for errors and the docs, where its type does not.

    A text can be limited to a regular expression.
    """

    def __init__(self, words: str, *, pattern: str | None = None) -> None:
        self.words = words
        self.pattern = pattern

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate the pattern too."""
        schema = cast("dict[str, Any]", handler(source))
        form = {"pattern": self.pattern} if self.pattern else {}
        return cast("CoreSchema", schema | form)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the description to the JSON Schema."""
        return {**handler(schema), "allowed": self.words}


def format_duration(span: timedelta) -> str:
    """Format a duration as the settings do, in the largest exact unit."""
    milliseconds = round(span.total_seconds() * 1000)
    unit = next(unit for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // _UNITS[unit]}{unit}"


@runtime_checkable
class _CdkDuration(Protocol):
    """`aws_cdk.Duration`, which the settings do not import: it would start a Node process."""

    def is_unresolved(self) -> bool: ...
    def to_milliseconds(self) -> float: ...


def _parse(value: object) -> object:
    if isinstance(value, _CdkDuration):
        if value.is_unresolved():
            raise rule_error(
                "a duration must be known at synth",
                found="a Duration from a token",
                allowed="a Duration of a number",
            )
        value = timedelta(milliseconds=value.to_milliseconds())
    if isinstance(value, timedelta):
        if value <= timedelta(0):
            raise rule_error("a duration is positive", found=value, allowed="more than zero")
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise rule_error("a duration is expected", found=value, allowed=DURATION_ALLOWED)
    if len(match[1]) > _DURATION_DIGITS:
        raise rule_error(
            f"a duration has up to {_DURATION_DIGITS} digits", found=value, allowed=DURATION_ALLOWED
        )
    return timedelta(milliseconds=int(match[1]) * _UNITS[match[2]])


def multiples_of(step: timedelta, most: timedelta, *, rule: str, words: str) -> AfterValidator:
    """Refuse a duration that is no multiple of a step, or too long; `words` say what is allowed."""

    def check(value: timedelta) -> timedelta:
        if value % step or value > most:
            raise rule_error(rule, found=format_duration(value), allowed=words)
        return value

    return AfterValidator(check)


def _each_once(values: tuple[object, ...]) -> tuple[object, ...]:
    twice = [str(value) for value in dict.fromkeys(values) if values.count(value) > 1]
    if twice:
        raise rule_error(
            "a value is given twice", found=", ".join(twice), allowed="each value once"
        )
    return values


Duration = Annotated[
    timedelta,
    BeforeValidator(_parse),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{_DURATION.pattern}$", "allowed": DURATION_ALLOWED}
    ),
    allowed(DURATION_ALLOWED),
]

#: Attached to a list's type, after its lengths: no value of it comes twice.
EachOnce = AfterValidator(_each_once)
_T = TypeVar("_T")
#: A list: a file has lists where the settings have tuples.
Listed = Annotated[tuple[_T, ...], Field(strict=False)]
Distinct = Annotated[tuple[_T, ...], Field(strict=False), EachOnce]
