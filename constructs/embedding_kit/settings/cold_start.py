"""The strategy against cold starts: SnapStart or provisioned concurrency.

Sources: https://docs.aws.amazon.com/lambda/latest/dg/provisioned-concurrency.html,
https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html,
https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-policy-overview.html
"""

import math
import re
from typing import Annotated, Literal, Self
from zoneinfo import available_timezones

from pydantic import BeforeValidator, Field, field_validator, model_validator

from embedding_kit.settings.base import (
    Duration,
    Listed,
    Settings,
    allowed,
    format_duration,
    optional,
    rule_error,
)

#: "10 x allocated provisioned concurrency" requests a second for a version or an alias:
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_REQUESTS_PER_SECOND = 10
_LEAST_TARGET = 0.1
#: The form only: AWS reads the fields when it deploys the schedule.
_SCHEDULE = re.compile(
    r"cron\(\S+( \S+){5}\)|at\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\)|rate\(\d+ (minute|hour|day)s?\)"
)
_SCHEDULE_ALLOWED = (
    'an expression of six fields such as "cron(0 8 ? * MON-FRI *)", or rate(...) or at(...)'
)
_ZONE_ALLOWED = "an IANA time zone such as Europe/Berlin"
_FLOOR = (
    "AWS refuses the next deploy if the minimum is 0, because scaling then removes the "
    "provisioned concurrency"
)


def _above_zero(value: object) -> object:
    if value == 0:
        raise rule_error(_FLOOR, found=0, allowed="1 or more")
    return value


_Minimum = Annotated[int, Field(ge=1), BeforeValidator(_above_zero)]


class SnapStart(Settings):
    """Execution environments are restored from a snapshot taken when a version is published."""

    kind: Literal["snapstart"] = Field(
        default="snapstart", description="Restore from a snapshot of an initialized environment."
    )


class ScheduledCapacity(Settings):
    """A minimum, a maximum or both that apply from a scheduled time on."""

    at: Annotated[str, allowed(_SCHEDULE_ALLOWED)] = Field(
        description="When the bounds start to apply, in Application Auto Scaling's syntax."
    )
    time_zone: Annotated[str, allowed(_ZONE_ALLOWED)] = Field(
        default="Etc/UTC", description="The schedule's time zone."
    )
    minimum: _Minimum | None = optional("The minimum provisioned concurrency from then on.")
    maximum: Annotated[int, Field(ge=1)] | None = optional(
        "The maximum provisioned concurrency from then on."
    )

    @field_validator("at")
    @classmethod
    def _schedule_readable(cls, value: str) -> str:
        if _SCHEDULE.fullmatch(value) is None:
            raise rule_error("a schedule is expected", found=value, allowed=_SCHEDULE_ALLOWED)
        return value

    @field_validator("time_zone")
    @classmethod
    def _zone_known(cls, value: str) -> str:
        if value not in available_timezones():
            raise rule_error("a time zone is expected", found=value, allowed=_ZONE_ALLOWED)
        return value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.minimum is None and self.maximum is None:
            raise rule_error(
                "a scheduled capacity changes a bound",
                found="neither minimum nor maximum",
                allowed="one of them or both",
            )
        _check_bounds(self.minimum, self.maximum)
        return self


class Provisioned(Settings):
    """Provisioned concurrency with autoscaling on its utilization."""

    kind: Literal["provisioned"] = Field(
        default="provisioned", description="Provisioned concurrency, billed while it is allocated."
    )
    target_utilization: Annotated[float, Field(ge=_LEAST_TARGET, le=0.9)] = Field(
        default=0.7, description="The utilization that autoscaling aims at, from 0.1 to 0.9."
    )
    request_duration: Duration | None = optional(
        "The mean duration of a request (the metric `Duration`). AWS serves 10 requests per second "
        "per environment, so short requests limit utilization."
    )
    minimum: _Minimum = Field(default=1, description="The minimum provisioned concurrency.")
    maximum: Annotated[int, Field(ge=1)] = Field(
        default=10, description="The maximum provisioned concurrency."
    )
    schedule: Listed[ScheduledCapacity] = Field(
        default=(), description="Scheduled changes of the bounds."
    )

    @model_validator(mode="after")
    def _bounds_ordered(self) -> Self:
        _check_bounds(self.minimum, self.maximum)
        times = [f"{entry.at} in {entry.time_zone}" for entry in self.schedule]
        if len(set(times)) < len(times):
            raise rule_error(
                "the bounds change once at a time",
                found=", ".join(times),
                allowed="different times",
            )
        _check_entries(("[cold_start]", self), *((entry.at, entry) for entry in self.schedule))
        return self

    @property
    def highest_utilization(self) -> float:
        """The utilization at AWS's limit of requests; 1 if `request_duration` is not set."""
        if self.request_duration is None:
            return 1.0
        return min(1.0, _REQUESTS_PER_SECOND * self.request_duration.total_seconds())

    @property
    def warning(self) -> str | None:
        """Why the target is out of reach, or when it is; None where it can be reached."""
        rule = (
            f"AWS serves at most {_REQUESTS_PER_SECOND} requests a second per environment, so "
            f"utilization is at most {_REQUESTS_PER_SECOND} x the mean duration in seconds"
        )
        target = self.target_utilization
        if self.request_duration is None:
            shortest = round(1000 * target / _REQUESTS_PER_SECOND)
            return (
                f"{rule}: target_utilization = {target:g} needs requests of more than "
                f"{shortest} ms, or autoscaling never adds an environment; set "
                "cold_start.request_duration to the average of the metric Duration"
            )
        highest = self.highest_utilization
        if target < highest:
            return None
        # The default target leaves the same margin below full utilization.
        advised = math.floor(70 * highest) / 100
        advice = (
            f"set target_utilization = {advised:g}"
            if advised >= _LEAST_TARGET
            else f"no target of {_LEAST_TARGET:g} or more helps: schedule the minimum instead"
        )
        return (
            f"{rule}: requests of {format_duration(self.request_duration)} reach {highest:g}, so "
            f"target_utilization = {target:g} is never passed and autoscaling never adds an "
            f"environment; {advice}"
        )

    @property
    def highest_minimum(self) -> int:
        """The highest minimum, scheduled or not: the most that is billed without a request."""
        return max([self.minimum, *(e.minimum for e in self.schedule if e.minimum is not None)])

    @property
    def ceiling(self) -> int:
        """The highest maximum, scheduled or not."""
        return max([self.maximum, *(e.maximum for e in self.schedule if e.maximum is not None)])


ColdStart = Annotated[SnapStart | Provisioned, Field(discriminator="kind")]


def _check_entries(*entries: tuple[str, Provisioned | ScheduledCapacity]) -> None:
    """Refuse a minimum that may exceed another entry's maximum when it is applied.

    A bound that an entry sets stays until another entry sets it again. So the minimum of one entry
    and the maximum of another apply together, unless both entries set both bounds.
    """
    for low, by_low in entries:
        for high, by_high in entries:  # _check_bounds checks bounds of the same entry.
            if by_low is by_high or by_low.minimum is None or by_high.maximum is None:
                continue
            if by_low.maximum is not None and by_high.minimum is not None:
                continue
            if by_low.minimum > by_high.maximum:
                partial = low if by_low.maximum is None else high
                raise rule_error(
                    "a bound stays until another entry sets it again, and a minimum must not be "
                    "above the maximum",
                    found=f"minimum = {by_low.minimum} of {low} while maximum = {by_high.maximum} "
                    f"of {high} holds",
                    allowed=f"both bounds in {partial}, or a minimum up to that maximum",
                )


def _check_bounds(minimum: int | None, maximum: int | None) -> None:
    if minimum is not None and maximum is not None and minimum > maximum:
        raise rule_error(
            "the floor is not above the ceiling",
            found=f"minimum = {minimum}, maximum = {maximum}",
            allowed="minimum up to maximum",
        )
