"""How traffic shifts to a new version, and experiments with two versions.

Sources: https://docs.aws.amazon.com/codedeploy/latest/userguide/deployment-configurations.html,
https://docs.aws.amazon.com/codedeploy/latest/userguide/limits.html
"""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from embedding_kit.settings.base import Duration, Settings, allowed, format_duration, rule_error

__all__ = [
    "AliasExperiment",
    "AllAtOnce",
    "Canary",
    "Experiment",
    "Linear",
    "Release",
    "WeightedExperiment",
]

#: CodeDeploy's limit between the first and the last shift of a Lambda deployment.
_SHIFT_LIMIT = timedelta(hours=48)
_VERSION = allowed("the number of a published version, such as 12")


class _AnyRelease(Settings):
    allow_vector_space_change: bool = Field(
        default=False,
        description="Whether a version with another vector space may be "
        "released. All stored vectors must then be computed again.",
    )
    break_glass: bool = Field(
        default=False,
        description="For an outage: deploy without calling the deployed version, and do not "
        "roll back on an alarm. For one deploy: `scripts/deploy NAME -c break-glass=true`.",
    )


class AllAtOnce(_AnyRelease):
    """All traffic shifts at once, after the new version is warmed and checked."""

    kind: Literal["all-at-once"] = Field(
        default="all-at-once", description="All traffic shifts at once."
    )

    @property
    def shift(self) -> timedelta:
        """The time between the first and the last shift of traffic."""
        return timedelta(0)


class _Stepwise(_AnyRelease):
    percent: Annotated[int, Field(ge=1, le=99)] = Field(
        default=10, description="Percent of the traffic per step."
    )
    interval: Duration = Field(default=timedelta(minutes=5), description="Time between steps.")

    @field_validator("interval")
    @classmethod
    def _whole_minutes(cls, value: timedelta) -> timedelta:
        if value % timedelta(minutes=1) or not timedelta(minutes=1) <= value <= _SHIFT_LIMIT:
            raise rule_error(
                "CodeDeploy shifts traffic by the minute",
                found=format_duration(value),
                allowed="whole minutes, 1m to 2d",
            )
        return value


class Canary(_Stepwise):
    """A part of the traffic shifts first, the rest after the interval."""

    kind: Literal["canary"] = Field(default="canary", description="A part first, then the rest.")

    @property
    def shift(self) -> timedelta:
        """The time between the first and the last shift of traffic."""
        return self.interval


class Linear(_Stepwise):
    """An equal part of the traffic shifts at each interval."""

    kind: Literal["linear"] = Field(default="linear", description="Equal parts, one an interval.")

    @model_validator(mode="after")
    def _ends_in_time(self) -> Self:
        if self.shift > _SHIFT_LIMIT:
            longest = _SHIFT_LIMIT // self._intervals // timedelta(minutes=1) * timedelta(minutes=1)
            raise rule_error(
                "CodeDeploy allows 48 hours between the first and the last shift of traffic",
                found=f"percent = {self.percent}, interval = {format_duration(self.interval)}: "
                f"{self._intervals} intervals, {format_duration(self.shift)} in all",
                allowed=f"an interval up to {format_duration(longest)}, or a larger percent",
            )
        return self

    @property
    def shift(self) -> timedelta:
        """The time between the first and the last shift of traffic."""
        return self._intervals * self.interval

    @property
    def _intervals(self) -> int:
        # The first part shifts at once, so there is one interval less than there are parts.
        return -(-100 // self.percent) - 1


Release = Annotated[AllAtOnce | Canary | Linear, Field(discriminator="kind")]


class WeightedExperiment(Settings):
    """Part of the alias's traffic goes to another published version of the same vector space."""

    kind: Literal["weights"] = Field(
        default="weights", description="One URL, traffic divided by weight."
    )
    version: Annotated[int, Field(ge=1), _VERSION] = Field(
        description="The other published version."
    )
    percent: Annotated[float, Field(gt=0, lt=100)] = Field(
        description="Percent of the requests that go to the other version."
    )


class AliasExperiment(Settings):
    """Another published version has its own alias and URL; callers split the traffic."""

    kind: Literal["alias"] = Field(default="alias", description="A second alias with its own URL.")
    version: Annotated[int, Field(ge=1), _VERSION] = Field(
        description="The other published version."
    )
    alias: Annotated[
        str,
        Field(pattern=r"^[a-z][a-z0-9-]{0,62}$"),
        allowed("lower-case letters, digits and hyphens"),
    ] = Field(default="candidate", description="The second alias's name.")

    @field_validator("alias")
    @classmethod
    def _not_live(cls, value: str) -> str:
        if value == "live":
            raise rule_error("the first alias has that name", found=value, allowed="any other name")
        return value


Experiment = Annotated[WeightedExperiment | AliasExperiment, Field(discriminator="kind")]
