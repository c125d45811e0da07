"""The release of a new version: its check, and the shift of the alias's traffic to it.

The check is a custom resource that the alias depends on. CodeDeploy shifts the traffic, and rolls
back on alarms.
"""

from datetime import timedelta
from typing import cast

from aws_cdk import Annotations, CfnOutput, CfnResource, CustomResource, Duration, Names, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as custom
from constructs import Construct

from embedding_kit.endpoint_metrics import EndpointMetrics, computed, milliseconds
from embedding_kit.findings import acknowledge, acknowledge_wildcard
from embedding_kit.function import function_role, packaged_function
from embedding_kit.hosting import Hosting, make_log_group
from embedding_kit.permissions import allow
from embedding_kit.programs import contract
from embedding_kit.settings import (
    AlarmSettings,
    ColdStart,
    Experiment,
    FunctionSettings,
    ModelSettings,
    Provisioned,
    Release,
    artifact_in_s3,
)
from embedding_kit.vector_index import IVectorIndex

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


#: The check reads a manifest and compares a few vectors; it mostly waits for cold starts.
_CHECK_MEMORY_MB = 512
_CHECK_TIMEOUT = Duration.minutes(5)
#: CloudFormation waits an hour by default.
_CHECK_SERVICE_TIMEOUT = Duration.minutes(10)
#: Environments of a new version that the check starts at the same time, if there is room for them:
#: the first starts after a deploy are the slowest.
_WARM_STARTS = 3


class ReleaseCheck(Construct):
    """A custom resource that CloudFormation updates before the alias changes.

    Its function runs from the version's own code. CDK's provider framework calls it: it reports a
    crash of the code at once, and ignores the Delete that follows a failed Create, so a check that
    cannot start does not block the stack. If the check refuses a version, the resource fails:
    `cdk deploy` prints the reason, the alias does not change, and the stack rolls back.

    Attributes:
        function: The function that warms and checks a new version.
        log_group: The function's log group.
        resource: The custom resource.
        vector_space: The vector space of the version that was checked.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        alias: lambda_.Alias,
        model: ModelSettings,
        settings: FunctionSettings,
        release: Release,
        cold_start: ColdStart | None,
        experiment: Experiment | None,
        hosting: Hosting,
    ) -> None:
        """Check every version before the alias serves it, outside of the VPC."""
        super().__init__(scope, id)
        self._hosting = hosting
        self.log_group = make_log_group(self, "Logs")
        self.function = self._make_function(alias, model, settings)
        provider = self._make_provider()
        weighted_version = str(experiment.version) if experiment and experiment.percent else ""
        # The value follows below; the name is needed here.
        record = CfnOutput(self, "VectorSpace", value="unknown")
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::ReleaseCheck",
            service_token=provider.service_token,
            service_timeout=_CHECK_SERVICE_TIMEOUT,
            properties={
                "Function": alias.version.lambda_.function_name,
                "Version": alias.version.version,
                "WarmStarts": str(_warm_starts(settings.reserved_concurrency, cold_start)),
                "Alias": alias.alias_name,
                "OtherVersion": weighted_version,
                # With provisioned concurrency, Lambda itself uses weights for a moment.
                "ShiftsTraffic": str(
                    release.in_steps or isinstance(cold_start, Provisioned)
                ).lower(),
                "AllowVectorSpaceChange": str(release.allow_vector_space_change).lower(),
                "BreakGlass": str(breaks_glass(self)).lower(),
                "RecordedAs": record.logical_id,
            },
        )
        self.vector_space = self.resource.get_att_string("VectorSpace")
        record.value = self.vector_space
        record.description = "The vector space that was deployed last"
        if alias.node.default_child:
            alias.node.default_child.node.add_dependency(self.resource)

    def allow_standby(self, index: IVectorIndex, standby: IVectorIndex) -> None:
        """Let a release change the vector space if its index has vectors of the new one.

        Args:
            index: The index that the checked version searches.
            standby: The other one. A switch exchanges the two, and a permission that it changed
                would come too late for the check.
        """
        index.grant_query(self.function)
        standby.grant_query(self.function)
        resource = cast("CfnResource", self.resource.node.default_child)
        resource.add_property_override("Index", index.index_arn)

    def _make_function(
        self, alias: lambda_.Alias, model: ModelSettings, settings: FunctionSettings
    ) -> lambda_.Function:
        role = function_role(self, self.log_group)
        # Any version, but not the unqualified function. A policy that named the newest version
        # would change seconds before the check runs, too late for IAM to propagate it.
        arn = alias.version.lambda_.function_arn
        allow(role, ["lambda:GetFunctionConfiguration", "lambda:InvokeFunction"], [f"{arn}:*"])
        allow(role, ["lambda:GetAlias"], [arn, f"{arn}:{alias.alias_name}"])
        allow(role, ["cloudformation:DescribeStacks"], [Stack.of(self).stack_id])
        acknowledge_wildcard(
            role,
            f"{arn}:*",
            reason="The check reads and calls the new version and those that it compares it with, "
            "by number.",
        )
        function = packaged_function(
            self,
            "Function",
            package=settings.package,
            model=model,
            with_artifact=not artifact_in_s3(model, settings),
            handler=contract().handlers["release_check"],
            description="Warms and checks a new version before the alias moves to it",
            memory_size=_CHECK_MEMORY_MB,
            timeout=_CHECK_TIMEOUT,
            role=role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=self._hosting.tracing,
            environment_encryption=self._hosting.environment_encryption,
        )
        reason = "The provider framework waits for the answer, and takes none for a refusal."
        acknowledge(function, "Serverless-LambdaDLQ", reason=reason)
        return function

    def _make_provider(self) -> custom.Provider:
        scope = Construct(self, "Framework")
        log_group = make_log_group(scope, "Logs")
        role = function_role(scope, log_group)
        provider = custom.Provider(
            self,
            "Provider",
            on_event_handler=self.function,
            log_group=log_group,
            framework_on_event_role=role,
            provider_function_env_encryption=self._hosting.environment_encryption,
        )
        reason = "The framework calls the check's function, of which there is one version."
        acknowledge_wildcard(role, f"{self.function.function_arn}:*", reason=reason)
        rules = (f"Serverless-Lambda{rule}" for rule in ("DefaultMemorySize", "DLQ", "Tracing"))
        reason = "CDK's own function, which waits for the check and takes no such setting."
        acknowledge(provider, *rules, reason=reason)
        return provider


def _warm_starts(reserved: int | None, cold_start: ColdStart | None) -> int:
    if reserved is None:
        return _WARM_STARTS
    provisioned = cold_start.ceiling if isinstance(cold_start, Provisioned) else 0
    return min(_WARM_STARTS, reserved - provisioned)
