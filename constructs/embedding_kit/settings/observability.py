"""The settings of alarms, their thresholds, traces and the monthly budget."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from embedding_kit.settings.base import (
    Distinct,
    Duration,
    Settings,
    allowed,
    multiples_of,
    optional,
)
from embedding_kit.settings.locations import arn_form

#: The runbook's path in the repository. It has a section for each alarm, named like the alarm.
RUNBOOK = "docs/runbook.md"

_Email = Annotated[str, allowed("an e-mail address", pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]
_Address = Annotated[str, allowed("a URL or a path without spaces", pattern=r"^[!-~]+$")]
# An alarm fires above its threshold, and a share cannot exceed 100 percent.
_Percent = Annotated[float, Field(gt=0, lt=100)]
#: CloudWatch evaluates an alarm over at most a day; this alarm's period is five minutes.
#: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
_Silence = Annotated[
    Duration,
    multiples_of(
        timedelta(minutes=5),
        timedelta(days=1),
        rule="the alarm counts requests in periods of 5 minutes, over a day at most",
        words="5m to 1d, in steps of 5m",
    ),
]
#: Which alarms there are.
Watch = Literal["essential", "full"]


class Observability(Settings):
    """Alarms, their recipients, and traces."""

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

    duration_p99: Duration | None = optional(
        "Threshold of the p99 duration; half the timeout if unset. The p50 duration's is a fifth "
        "of it."
    )
    error_percent: _Percent = Field(
        default=1.0, description="Failed invocations, and throttled requests (429), in percent."
    )
    warning_percent: _Percent | None = optional(
        "Warns before an alarm pages, at this percentage of its threshold; no warnings if unset."
    )
    anomalies: bool = Field(
        default=False,
        description="Whether alarms compare traffic and billed time with such hours of the last "
        "two weeks.",
    )
    expected_traffic_interval: _Silence | None = optional(
        "The longest normal time without a request, 5m to 1d in steps of 5m; no such alarm if "
        "unset."
    )

    runbook_url: _Address = Field(
        default=RUNBOOK,
        description="The runbook's address in alarm texts, followed by `#` and the alarm's name. "
        "Set the URL of the page in your repository and mail clients make it a link.",
    )

    def effective_duration_p50(self, timeout: timedelta) -> timedelta:
        """Return a fifth of the threshold of the p99 duration."""
        return self.effective_duration_p99(timeout) / 5

    def effective_duration_p99(self, timeout: timedelta) -> timedelta:
        """Return `duration_p99`, by default half of the function's timeout."""
        return self.duration_p99 or timeout / 2


_PageTopic = Annotated[str, arn_form("a topic's ARN", "sns", "on-call", "[A-Za-z0-9_-]{1,256}")]


class AlarmTable(AlarmSettings):
    """The alarms' thresholds, and who gets their notices."""

    emails: Distinct[_Email] = Field(
        default=(), description="Email addresses for alarms and the budget."
    )
    page_topic: _PageTopic | None = optional(
        "The SNS topic that gets pages; `emails` if unset, and then all other notices only. Its "
        "policy and its key must let CloudWatch publish."
    )


class Budget(Settings):
    """The endpoint's monthly budget."""

    monthly_usd: Annotated[float, Field(ge=1, le=1_000_000)] | None = optional(
        "US dollars per month; notifies at 50, 80, 100% of actual, 100% of forecast. If unset, $20 "
        "for monitoring and requests, and 1.5 times the list price of what runs without a request."
    )
