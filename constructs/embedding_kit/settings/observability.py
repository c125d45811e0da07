"""What is watched and traced, the alarms' thresholds and the monthly budget."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from embedding_kit.settings.base import (
    Duration,
    EachOnce,
    Settings,
    allowed,
    format_duration,
    rule_error,
)

__all__ = [
    "INIT_LIMIT",
    "RUNBOOK",
    "AlarmSettings",
    "AlarmTable",
    "Budget",
    "Observability",
    "Watch",
    "check_watched",
]

#: Lambda stops an on-demand start after 10 s and repeats it at the first request.
#: https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
INIT_LIMIT = timedelta(seconds=10)
#: The runbook's path in the repository. It has a section for each alarm, named like the alarm.
RUNBOOK = "docs/runbook.md"

_Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$"), allowed("an e-mail address")]
# An alarm fires above its threshold, and a share cannot exceed 100 percent.
_Percent = Annotated[float, Field(gt=0, lt=100)]
#: CloudWatch evaluates an alarm over at most a day; this alarm's period is five minutes.
#: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
_SILENCE_STEP = timedelta(minutes=5)
_SILENCE_LIMIT = timedelta(days=1)


#: Which alarms there are.
Watch = Literal["essential", "full"]
#: The thresholds of alarms that only `full` has.
_OF_FULL = ("concurrency_percent", "provisioned_percent", "memory_percent")


class Observability(Settings):
    """What is watched and what is traced."""

    watch: Watch = Field(
        default="full",
        description="The alarms: `essential` for duration, init duration, errors and throttles; "
        "`full` also for capacity, memory, logs, and causes. Both have the dashboard.",
    )
    tracing: bool = Field(
        default=False,
        description="Whether X-Ray traces the functions, an API in front and the state machines. "
        "The server has `otlp_endpoint`.",
    )


class AlarmSettings(Settings):
    """The alarms' thresholds. Unset ones are derived from the function's limits."""

    duration_p50: Duration | None = Field(
        default=None, description="Threshold of the p50 duration; a tenth of the timeout if unset."
    )
    duration_p99: Duration | None = Field(
        default=None, description="Threshold of the p99 duration; half the timeout if unset."
    )
    init_p99: Duration | None = Field(
        default=None,
        description="Threshold of the p99 init duration; half of Lambda's limit of 10s if "
        "unset, or `init_max` if that is less.",
    )
    init_max: Duration = Field(
        default=INIT_LIMIT * 8 / 10,
        description="Threshold of the maximum init duration; Lambda's limit is 10s.",
    )
    error_percent: _Percent = Field(default=1.0, description="Failed invocations in percent.")
    throttle_percent: _Percent = Field(
        default=1.0, description="Throttled requests (429) in percent."
    )
    concurrency_percent: _Percent = Field(
        default=80.0,
        description="Concurrency in percent of the reserved concurrency or the account's quota.",
    )
    provisioned_percent: _Percent = Field(
        default=90.0,
        description="Utilization of provisioned concurrency in percent of its highest value.",
    )
    memory_percent: _Percent = Field(
        default=90.0, description="Maximum memory used in percent of the function's memory."
    )
    traffic_every: Duration | None = Field(
        default=None,
        description="The longest normal time without a request, 5m to 1d in steps of 5m; "
        "no such alarm if unset.",
    )

    runbook_url: Annotated[
        str, Field(pattern=r"^[!-~]+$"), allowed("a URL or a path without spaces")
    ] = Field(
        default=RUNBOOK,
        description="The runbook's address in alarm texts, followed by `#` and the alarm's name. "
        "Set the URL of the page in your repository and mail clients make it a link.",
    )

    @field_validator("init_p99", "init_max")
    @classmethod
    def _start_can_take_that_long(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value >= INIT_LIMIT:
            raise rule_error(
                f"Lambda ends an on-demand start after {format_duration(INIT_LIMIT)}, "
                "so the alarm could never fire",
                found=format_duration(value),
                allowed=f"less than {format_duration(INIT_LIMIT)}",
            )
        return value

    @field_validator("traffic_every")
    @classmethod
    def _silence_alarmable(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and (
            value % _SILENCE_STEP or not _SILENCE_STEP <= value <= _SILENCE_LIMIT
        ):
            raise rule_error(
                "the alarm counts requests in periods of 5 minutes, over a day at most",
                found=format_duration(value),
                allowed="5m to 1d, in steps of 5m",
            )
        return value

    def effective_duration_p50(self, timeout: timedelta) -> timedelta:
        """Return `duration_p50`, by default a tenth of the function's timeout."""
        return self.duration_p50 or timeout / 10

    def effective_duration_p99(self, timeout: timedelta) -> timedelta:
        """Return `duration_p99`, by default half of the function's timeout."""
        return self.duration_p99 or timeout / 2

    @property
    def effective_init_p99(self) -> timedelta:
        """`init_p99`, by default half of Lambda's 10 s, or `init_max` if that is less."""
        return self.init_p99 or min(INIT_LIMIT / 2, self.init_max)

    @model_validator(mode="after")
    def _thresholds_ordered(self) -> Self:
        _check_order("init_p99", self.init_p99, "init_max", self.init_max)
        _check_order("duration_p50", self.duration_p50, "duration_p99", self.duration_p99)
        return self


class AlarmTable(AlarmSettings):
    """The alarms' thresholds, and who gets their notices."""

    emails: Annotated[tuple[_Email, ...], EachOnce] = Field(
        default=(), strict=False, description="Email addresses for alarms and the budget."
    )


def check_watched(observability: Observability, alarms: AlarmSettings) -> None:
    """Refuse a threshold of an alarm that there is not.

    Raises:
        PydanticCustomError: A `ValueError` with the rule, the value found and the values allowed.
    """
    unused = [name for name in _OF_FULL if name in alarms.model_fields_set]
    if observability.watch == "essential" and unused:
        raise rule_error(
            "no essential alarm has this threshold",
            found=f'alarms.{", alarms.".join(unused)} with observability.watch = "essential"',
            allowed='observability.watch = "full", or no such threshold',
        )


class Budget(Settings):
    """The endpoint's monthly budget."""

    monthly_usd: Annotated[float, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="US dollars per month; notifies at 50, 80, 100% of actual, 100% of forecast. "
        "If unset, $20 for monitoring and requests, and 1.5 times the list price of what runs "
        "without a request.",
    )


def _check_order(low: str, lower: timedelta | None, high: str, higher: timedelta | None) -> None:
    if lower is not None and higher is not None and lower > higher:
        raise rule_error(
            f"{low} above {high} could fire only when {high} has fired already",
            found=f"{low} = {format_duration(lower)}, {high} = {format_duration(higher)}",
            allowed=f"{low} up to {high}",
        )
