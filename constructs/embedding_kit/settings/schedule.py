"""Schedule expressions of Application Auto Scaling: `cron(...)`, `at(...)` and `rate(...)`.

AWS checks an expression during the deploy. The same rules are checked here, at synth.

Sources: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html,
https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-using-cron-expressions.html,
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-cron-expressions.html,
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rate-expressions.html
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from embedding_kit.settings.base import rule_error

__all__ = ["SCHEDULE_ALLOWED", "check_schedule", "firing_times"]

SCHEDULE_ALLOWED = (
    'an expression of six fields such as "cron(0 8 ? * MON-FRI *)", or rate(...) or at(...)'
)
_AT_ALLOWED = "a date and a time that exist, such as at(2027-01-31T08:00:00)"
_RATE_ALLOWED = "rate(1 minute), rate(1 hour), rate(1 day), or a plural such as rate(2 hours)"
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a cron expression, as AWS documents it."""

    name: str
    low: int
    high: int
    wildcards: str = ", - * /"
    names: tuple[str, ...] = ()
    #: Forms that apply to the whole field, as a regular expression.
    alone: str = ""

    @property
    def allowed(self) -> str:
        values = f"{self.low}-{self.high}"
        if self.names:
            values += f" or {self.names[0]}-{self.names[-1]}"
        return f"{values}, and {self.wildcards}"


_MINUTES = _Field("minutes", 0, 59)
_HOURS = _Field("hours", 0, 23)
_DAY_OF_MONTH = _Field(
    "day of month", 1, 31, ", - * / ? L W", alone=r"\?|L|([1-9]|[12][0-9]|3[01])W"
)
_MONTH = _Field("month", 1, 12, names=_MONTHS)
_DAY_OF_WEEK = _Field(
    "day of week",
    1,
    7,
    ", - * ? L #",
    names=_DAYS,
    alone=rf"\?|L|[1-7]L|([1-7]|{'|'.join(_DAYS)})#[1-5]",
)
_YEAR = _Field("year", 1970, 2199)
_FIELDS = (_MINUTES, _HOURS, _DAY_OF_MONTH, _MONTH, _DAY_OF_WEEK, _YEAR)


def check_schedule(expression: str) -> None:
    """Refuse an expression that AWS refuses, and a cron expression that matches no date.

    Raises:
        PydanticCustomError: A `ValueError` with the rule, the value found and the values allowed.
    """
    match = re.fullmatch(r"(cron|at|rate)\((.*)\)", expression)
    if match is None:
        raise rule_error("a schedule is expected", found=expression, allowed=SCHEDULE_ALLOWED)
    {"cron": _check_cron, "at": _check_at, "rate": _check_rate}[match[1]](match[2])


def firing_times(
    expression: str, start: datetime, end: datetime, *, zone: tzinfo
) -> Iterator[datetime]:
    """Yield the moments from start to before end at which a valid expression fires.

    Args:
        expression: An expression that `check_schedule` accepts.
        start: The first moment. `rate(...)` fires then, and not again: what it sets stays.
        end: The end, later than all moments.
        zone: The time zone of the expression.
    """
    kind, _, rest = expression.partition("(")
    if kind == "rate":
        yield start
        return
    if kind == "at":
        moments = [datetime.fromisoformat(rest[:-1]).replace(tzinfo=zone)]
    else:
        minutes, hours, *days = rest[:-1].split()
        times = [time(h, m) for h in _values(_HOURS, hours) for m in _values(_MINUTES, minutes)]
        first, last = (moment.astimezone(zone).date() for moment in (start, end))
        span = (first + timedelta(days=number) for number in range((last - first).days + 1))
        dates = [day for day in span if _matches(day, *days)]
        moments = [datetime.combine(day, at, zone) for day in dates for at in times]
    yield from (moment for moment in moments if start <= moment < end)


def _matches(day: date, of_month: str, month: str, of_week: str, year: str) -> bool:
    """Whether a date matches the four last fields of a cron expression."""
    if day.month not in _values(_MONTH, month) or day.year not in _values(_YEAR, year):
        return False
    return _matches_month_day(day, of_month) and _matches_weekday(day, of_week)


def _matches_month_day(day: date, field: str) -> bool:
    last = monthrange(day.year, day.month)[1]
    if field == "?":
        return True
    if field == "L":
        return day.day == last
    if field.endswith("W"):
        return day == _nearest_weekday(day.replace(day=min(int(field[:-1]), last)))
    return day.day in _values(_DAY_OF_MONTH, field)


def _nearest_weekday(day: date) -> date:
    """Return the date itself, or the nearest one from Monday to Friday in the same month."""
    steps = (0, -1, 1, -2, 2)
    near = (day + timedelta(days=step) for step in steps)
    return next(d for d in near if d.weekday() < 5 and d.month == day.month)


def _matches_weekday(day: date, field: str) -> bool:
    number = day.isoweekday() % 7 + 1  # AWS counts from Sunday, which is 1.
    if field == "?":
        return True
    if field == "L":
        return number == 7
    name, mark, which = field.partition("#")
    if mark:
        return number in _values(_DAY_OF_WEEK, name) and (day.day - 1) // 7 + 1 == int(which)
    if field.endswith("L"):
        is_last = day.day + 7 > monthrange(day.year, day.month)[1]
        return number == int(field[:-1]) and is_last
    return number in _values(_DAY_OF_WEEK, field)


def _check_at(text: str) -> None:
    # fromisoformat alone would also accept a date without a time, a zone or fractions.
    written = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", text, re.ASCII)
    try:
        moment = datetime.fromisoformat(text) if written else None
    except ValueError:
        moment = None
    if moment is None:
        raise rule_error("at(...) takes one moment", found=text, allowed=_AT_ALLOWED)


def _check_rate(text: str) -> None:
    if re.fullmatch(r"1 (minute|hour|day)|([2-9]|[1-9][0-9]+) (minute|hour|day)s", text) is None:
        rule = "rate(...) takes a whole number and a unit, singular for 1 and plural above"
        raise rule_error(rule, found=text, allowed=_RATE_ALLOWED)


def _check_cron(text: str) -> None:
    parts = text.split()
    if len(parts) != len(_FIELDS):
        rule = f"cron(...) takes {len(_FIELDS)} fields, and {len(parts)} are given"
        raise rule_error(rule, found=text, allowed=SCHEDULE_ALLOWED)
    values = [_values(field, part) for field, part in zip(_FIELDS, parts, strict=True)]
    if (parts[2] == "?") == (parts[4] == "?"):
        raise rule_error(
            "exactly one of day of month and day of week is ?",
            found=text,
            allowed='a ? in one of them, such as "cron(0 8 ? * MON-FRI *)"',
        )
    days, months, years = values[2], values[3], values[5]
    if not any(day <= monthrange(y, m)[1] for day in days for m in months for y in years):
        raise rule_error("no date matches", found=text, allowed="a day that the month has")


def _values(field: _Field, text: str) -> list[int]:
    """Return the numbers of a field; its lowest for a form that applies to the whole field."""
    if field.alone and re.fullmatch(field.alone, text):
        number = re.fullmatch(r"(\d+)W", text)
        return [int(number[1]) if number else field.low]
    found: set[int] = set()
    for part in text.split(","):
        values = _span(field, part)
        if not values:
            raise rule_error(
                f"{field.name} of cron(...) is not valid", found=text, allowed=field.allowed
            )
        found.update(values)
    return sorted(found)


def _span(field: _Field, text: str) -> range:
    """Parse a value, a range or steps; return an empty range for other text."""
    start, slash, step = text.partition("/")
    first, dash, last = start.partition("-")
    if start == "*":
        low, high = field.low, field.high
    else:
        low = _number(field, first)
        # A step without a range continues to the end of the field.
        high = _number(field, last) if dash else field.high if slash else low
    every = int(step) if re.fullmatch(r"[0-9]{1,3}", step) else 0
    if slash and not ("/" in field.wildcards and 1 <= every <= field.high):
        return range(0)
    return range(low, high + 1, every or 1) if field.low <= low <= high <= field.high else range(0)


def _number(field: _Field, text: str) -> int:
    """Parse a number or a name; return -1, which no field allows, for other text."""
    if text in field.names:
        return field.low + field.names.index(text)
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else -1
