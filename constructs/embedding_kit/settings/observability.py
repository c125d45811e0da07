"""When somebody is told: the alarms' thresholds and the monthly budget."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, field_validator

from embedding_kit.settings.base import Duration, Settings, allowed, refuse, written

__all__ = ["AlarmSettings", "Budget"]

#: Lambda ends an on-demand start after 10 s and begins it anew at the first request.
#: https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
INIT_LIMIT = timedelta(seconds=10)

_Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$"), allowed("an e-mail address")]
_Percent = Annotated[float, Field(gt=0, le=100)]


class AlarmSettings(Settings):
    """Thresholds. What is not set is derived from the function's own limits."""

    emails: tuple[_Email, ...] = Field(
        default=(), strict=False, description="Addresses that alarms and the budget write to."
    )
    duration_p50: Duration | None = Field(
        default=None, description="The median request; a tenth of the timeout if unset."
    )
    duration_p99: Duration | None = Field(
        default=None, description="The slowest hundredth; half the timeout if unset."
    )
    init_p99: Duration = Field(
        default=INIT_LIMIT / 2,
        description="The slowest hundredth of cold starts; half of the 10s that Lambda gives.",
    )
    init_maximum: Duration = Field(
        default=INIT_LIMIT * 8 / 10,
        description="The slowest cold start; four fifths of the 10s that Lambda gives.",
    )
    error_percent: _Percent = Field(
        default=1.0, description="Failed invocations in percent of all."
    )
    throttle_percent: _Percent = Field(
        default=1.0, description="Refused requests (429) in percent of all."
    )
    concurrency_percent: _Percent = Field(
        default=80.0,
        description="Concurrent requests in percent of the reservation, else the account's quota.",
    )
    provisioned_percent: _Percent = Field(
        default=90.0,
        description="Busy environments in percent of those kept ready, at the ceiling too.",
    )
    memory_percent: _Percent = Field(
        default=90.0, description="Memory used at the most in percent of the function's."
    )
    traffic_every: Duration | None = Field(
        default=None,
        description="The longest silence that is normal, 5m to 1d; no alarm on silence if unset.",
    )

    @field_validator("traffic_every")
    @classmethod
    def _silence_alarmable(cls, value: timedelta | None) -> timedelta | None:
        # CloudWatch looks back a day at most, and a URL's metrics come by the minute.
        if value is not None and not timedelta(minutes=5) <= value <= timedelta(days=1):
            raise refuse(
                "an alarm looks back a day at most", found=written(value), allowed="5m to 1d"
            )
        return value


class Budget(Settings):
    """What the endpoint may cost a month."""

    monthly_usd: Annotated[float, Field(gt=0)] = Field(
        description="US dollars a month; told at 50, 80 and 100 percent, and when 100 is forecast."
    )
