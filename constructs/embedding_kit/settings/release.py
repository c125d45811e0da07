"""How traffic shifts to a new version, and experiments with two versions.

Sources: https://docs.aws.amazon.com/codedeploy/latest/userguide/deployment-configurations.html,
https://docs.aws.amazon.com/codedeploy/latest/userguide/limits.html
"""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from embedding_kit.settings.base import (
    Duration,
    Settings,
    allowed,
    format_duration,
    multiples_of,
    optional,
    rule_error,
)

#: CodeDeploy's limit between the first and the last shift of a Lambda deployment.
_SHIFT_LIMIT = timedelta(hours=48)


class Release(Settings):
    """The shift of traffic to a new version, after it is warmed and checked.

    In an outage, `-c break-glass=true` deploys without calling the deployed version, and without a
    rollback on an alarm.
    """

    kind: Literal["all-at-once", "canary", "linear"] = Field(
        default="all-at-once",
        description="All traffic shifts at the same time; or as `canary` a part first and then the "
        "rest; or as `linear` an equal part at each interval.",
    )
    percent: Annotated[int, Field(ge=1, le=99)] = Field(
        default=10, description="Percent of the traffic per step."
    )
    interval: Annotated[
        Duration,
        multiples_of(
            timedelta(minutes=1),
            _SHIFT_LIMIT,
            rule="CodeDeploy shifts traffic by the minute",
            words="whole minutes, 1m to 2d",
        ),
    ] = Field(default=timedelta(minutes=5), description="Time between steps.")
    allow_vector_space_change: bool = Field(
        default=False,
        description="Whether a version with another vector space may be released. All stored "
        "vectors must then be computed again.",
    )

    @model_validator(mode="after")
    def _steps_possible(self) -> Self:
        step_settings = sorted({"percent", "interval"} & self.model_fields_set)
        if step_settings and self.kind == "all-at-once":
            raise rule_error(
                "a release all at once has no steps",
                found=f'{" and ".join(step_settings)} with kind = "all-at-once"',
                allowed='kind = "canary" or "linear", or neither percent nor interval',
            )
        if self.kind == "linear" and self.shift > _SHIFT_LIMIT:
            longest = _SHIFT_LIMIT // self._intervals // timedelta(minutes=1) * timedelta(minutes=1)
            raise rule_error(
                "CodeDeploy allows 48 hours between the first and the last shift of traffic",
                found=f"percent = {self.percent}, interval = {format_duration(self.interval)}: "
                f"{self._intervals} intervals, {format_duration(self.shift)} in all",
                allowed=f"an interval up to {format_duration(longest)}, or a larger percent",
            )
        return self

    @property
    def in_steps(self) -> bool:
        """Whether two versions share the traffic for a while."""
        return self.kind != "all-at-once"

    @property
    def shift(self) -> timedelta:
        """The time between the first and the last shift of traffic."""
        return self._intervals * self.interval

    @property
    def _intervals(self) -> int:
        # The first part shifts at once, so there is one interval less than there are parts.
        shifts = {"all-at-once": 1, "canary": 2, "linear": -(-100 // self.percent)}
        return shifts[self.kind] - 1


class Experiment(Settings):
    """Another published version to compare with the deployed one."""

    version: Annotated[
        int, Field(ge=1), allowed("the number of a published version, such as 12")
    ] = Field(description="The other published version.")
    percent: Annotated[float, Field(gt=0, lt=100)] | None = optional(
        "Percent of the URL's requests that it answers; its vector space must be the same. If "
        "unset, it has a second URL, and the callers divide the traffic."
    )
