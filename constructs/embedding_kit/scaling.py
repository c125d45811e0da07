"""Environments kept ready: as many as their use asks for, in bounds that may follow the clock."""

from aws_cdk import TimeZone
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.settings import Provisioned

__all__ = ["ProvisionedScaling"]


class ProvisionedScaling(Construct):
    """Provisioned concurrency of an alias under target tracking and scheduled bounds.

    There is never a static count beside it: the two would set the same number against each other.
    The floor starts to hold when the alias is registered.

    Attributes:
        target: What Application Auto Scaling scales.
    """

    def __init__(
        self, scope: Construct, id: str, *, alias: lambda_.Alias, settings: Provisioned
    ) -> None:
        """Scale the alias.

        Args:
            scope: The parent.
            id: The construct's id.
            alias: What is kept ready. Its version must have no weights beside it.
            settings: Target, bounds and schedule.
        """
        super().__init__(scope, id)
        self.target = alias.add_auto_scaling(
            min_capacity=settings.minimum, max_capacity=settings.maximum
        )
        self.target.scale_on_utilization(utilization_target=settings.target_utilization)
        for entry in settings.schedule:
            self.target.scale_on_schedule(
                entry.name,
                schedule=scaling.Schedule.expression(entry.at),
                time_zone=TimeZone.of(entry.time_zone),
                min_capacity=entry.minimum,
                max_capacity=entry.maximum,
            )
