"""Provisioned concurrency that follows utilization, within bounds that may follow a schedule."""

from aws_cdk import Annotations, TimeZone
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.settings import Provisioned

__all__ = ["ProvisionedScaling"]


class ProvisionedScaling(Construct):
    """Provisioned concurrency of an alias under target tracking and scheduled bounds.

    It sets no static count, which would conflict with autoscaling. The minimum applies as soon as
    the alias is registered.

    While a canary or linear release shifts traffic, AWS serves both versions from the allocated
    environments and refuses to change their number, so autoscaling pauses
    (https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html).

    Attributes:
        target: The scalable target of Application Auto Scaling.
    """

    def __init__(
        self, scope: Construct, id: str, *, alias: lambda_.Alias, settings: Provisioned
    ) -> None:
        """Scale the alias.

        Args:
            scope: The parent.
            id: The construct's id.
            alias: The alias, without weights: AWS would not scale it with them.
            settings: Target, bounds and schedule.
        """
        super().__init__(scope, id)
        self.target = alias.add_auto_scaling(
            min_capacity=settings.minimum, max_capacity=settings.maximum
        )
        if settings.warning is not None:
            Annotations.of(self).add_warning_v2(
                "@embedding-kit/provisioned:targetUtilization", settings.warning
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
