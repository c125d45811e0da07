"""Shift the alias's traffic to a new version with CodeDeploy, and roll back on alarms."""

from datetime import timedelta

from aws_cdk import Annotations, Duration, Names
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.endpoint_metrics import EndpointMetrics, computed, milliseconds
from embedding_kit.findings import acknowledge_wildcard
from embedding_kit.permissions import allow
from embedding_kit.settings import AlarmSettings, Release

_BREAK_GLASS = (
    "BREAK GLASS: this release does not ask the version that serves now, and CodeDeploy does not "
    "roll it back on an alarm. Deploy without -c break-glass=true afterwards."
)


def breaks_glass(scope: Construct) -> bool:
    """Return whether the app's context has `break-glass=true`, for one deploy in an outage."""
    return scope.node.try_get_context("break-glass") in {True, "true"}


class GuardedRelease(Construct):
    """A CodeDeploy deployment of an alias, with alarms on the new version that roll it back.

    Attributes:
        alarms: The alarms that stop a release and roll it back; none if all traffic shifts at
            once, because CodeDeploy then has no time in which it reads them.
        deployment_group: CodeDeploy's deployment group.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        alias: lambda_.Alias,
        release: Release,
        metrics: EndpointMetrics,
        alarms: AlarmSettings,
        timeout: timedelta,
    ) -> None:
        super().__init__(scope, id)
        self.alarms: list[cloudwatch.Alarm] = []
        if release.in_steps:
            self.alarms = self._make_alarms(alias.version.version, metrics, alarms, timeout)
        role = self._make_role(alias)
        self.deployment_group = codedeploy.LambdaDeploymentGroup(
            self,
            "Group",
            alias=alias,
            # The CDK would attach AWS's managed policy, which may change every alias in an account.
            role=role.without_policy_updates(),
            deployment_config=self._config(release),
            alarms=self.alarms,
            ignore_alarm_configuration=breaks_glass(self),
            auto_rollback=codedeploy.AutoRollbackConfig(
                failed_deployment=True,
                stopped_deployment=True,
                deployment_in_alarm=bool(self.alarms),
            ),
        )
        # The alias's update policy refers to the group, but not to the policy of its role. The role
        # must have its permissions before the alias changes.
        if alias.node.default_child:
            alias.node.default_child.node.add_dependency(role)
        if breaks_glass(self):
            Annotations.of(self).add_warning_v2("embedding-kit:breakGlass", _BREAK_GLASS)

    def _make_alarms(
        self, version: str, metrics: EndpointMetrics, alarms: AlarmSettings, timeout: timedelta
    ) -> list[cloudwatch.Alarm]:
        crashes = metrics.of_version(version, "Errors", "Sum")
        failures = computed(
            "IF(requests > 0, 100 * failures / requests, 0)",
            {
                "failures": metrics.of_embedders_version(version, "ServerErrors", "Sum"),
                "requests": metrics.of_embedders_version(version, "Requests", "Sum"),
            },
            "Failed requests of the new version, percent",
        )
        slow = metrics.of_version(version, "Duration", "p99")
        p99 = milliseconds(alarms.effective_duration_p99(timeout))
        percent = alarms.error_percent
        limits: dict[str, tuple[cloudwatch.IMetric, float, str]] = {
            "Crashes": (crashes, 0, "crashed, timed out or ran out of memory"),
            "Failures": (
                failures,
                percent,
                f"answered more than {percent:g}% of requests with 5xx",
            ),
            "Slow": (slow, p99, f"had a p99 duration above {p99:,g} ms"),
        }
        prefix = Names.unique_resource_name(self, separator="-", max_length=200)
        return [
            cloudwatch.Alarm(
                self,
                name,
                # A new name for each version makes a new alarm, which starts with
                # INSUFFICIENT_DATA. An updated alarm keeps its state: after a failing version it
                # would still be in ALARM when CodeDeploy reads it, and would stop the fix.
                # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
                alarm_name=f"{prefix}-{name}-{version}",
                metric=metric,
                threshold=threshold,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                evaluation_periods=1,
                # A version without requests has no data and no reason for a rollback.
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
                alarm_description=f"The new version {reason} for 1 minute. CodeDeploy rolls back. "
                f"Runbook: {alarms.runbook_url}#release",
            )
            for name, (metric, threshold, reason) in limits.items()
        ]

    def _make_role(self, alias: lambda_.Alias) -> iam.Role:
        function = alias.version.lambda_.function_arn
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        allow(
            role,
            ["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"],
            [function, f"{function}:{alias.alias_name}"],
        )
        # DescribeAlarms does not support resource-level permissions.
        allow(role, ["cloudwatch:DescribeAlarms"], ["*"])
        acknowledge_wildcard(
            role,
            "*",
            reason="cloudwatch:DescribeAlarms, by which CodeDeploy reads the alarms, is granted on "
            "all alarms or on none.",
        )
        return role

    def _config(self, release: Release) -> codedeploy.ILambdaDeploymentConfig:
        if not release.in_steps:
            return codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE
        interval = Duration.minutes(int(release.interval.total_seconds() // 60))
        routing = (
            codedeploy.TimeBasedCanaryTrafficRouting
            if release.kind == "canary"
            else codedeploy.TimeBasedLinearTrafficRouting
        )
        return codedeploy.LambdaDeploymentConfig(
            self, "Steps", traffic_routing=routing(interval=interval, percentage=release.percent)
        )
