"""The bounds of provisioned concurrency that an environment's schedule gives each hour."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from embedding_kit.settings import Provisioned
from embedding_kit.settings.schedule import firing_times

__all__ = ["HourBounds", "hourly_bounds"]

#: Four weeks that start on a Monday, a week after the schedule began to act. No month has all
#: weekdays equally often, and 28 days have.
_BEGIN = datetime(2027, 3, 1)  # noqa: DTZ001 - local time of the schedule's zone
_SETTLED = timedelta(days=31)
_DAYS = 28


@dataclass(frozen=True, slots=True)
class HourBounds:
    """The bounds in a part of the hours with one number."""

    #: The hour of the day, in the time zone of the schedule.
    hour: int
    #: The share of all hours of the month.
    share: float
    minimum: int
    maximum: int


def hourly_bounds(settings: Provisioned) -> tuple[HourBounds, ...]:
    """Return the bounds that the settings give each hour of the day, over four weeks."""
    zone = ZoneInfo(settings.schedule[0].time_zone if settings.schedule else "Etc/UTC")
    begin = _BEGIN.replace(tzinfo=zone).astimezone(UTC)
    changes = sorted(_changes(settings, begin - _SETTLED, begin + timedelta(days=_DAYS)))
    minimum, maximum = settings.minimum, settings.maximum
    seen: Counter[tuple[int, int, int]] = Counter()
    minutes = _DAYS * 24 * 60
    for minute in range(0, minutes, 10):
        now = begin + timedelta(minutes=minute)
        while changes and changes[0][0] <= now:
            _, low, high = changes.pop(0)
            minimum = low or minimum
            maximum = high or maximum
        seen[now.astimezone(zone).hour, minimum, maximum] += 10
    return tuple(
        HourBounds(hour, count / minutes, low, high)
        for (hour, low, high), count in sorted(seen.items())
    )


def _changes(
    settings: Provisioned, start: datetime, end: datetime
) -> Iterator[tuple[datetime, int, int]]:
    """Yield when a scheduled action sets its bounds; 0 for a bound that it leaves."""
    for entry in settings.schedule:
        for moment in firing_times(entry.at, start, end, zone=ZoneInfo(entry.time_zone)):
            yield moment, entry.minimum or 0, entry.maximum or 0
