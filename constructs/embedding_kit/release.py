"""How a new version takes over: checked first, given traffic stepwise, taken back on an alarm."""

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Stack, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.function import function_role
from embedding_kit.image import image_code
from embedding_kit.metrics import PERIOD, EndpointMetrics
from embedding_kit.settings import AllAtOnce, Canary, Model, Release
from embedding_kit.thresholds import RUNBOOK, Thresholds

__all__ = ["CheckedRelease"]

#: The check reads a manifest and compares a few vectors; most of its time it waits for cold starts.
_CHECK_MEMORY_MB = 512
_CHECK_TIMEOUT = Duration.minutes(5)


class CheckedRelease(Construct):
    """CodeDeploy on an alias, with a check of the new version first and a way back.

    Attributes:
        check: The function that warms and checks a new version.
        alarms: What stops a release and takes it back.
        deployment_group: CodeDeploy's group.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        alias: lambda_.Alias,
        model: Model,
        release: Release,
        metrics: EndpointMetrics,
        thresholds: Thresholds,
    ) -> None:
        """Put the alias under CodeDeploy.

        Args:
            scope: The parent.
            id: The construct's id.
            alias: The alias that moves.
            model: What the image serves; the check runs from the same image.
            release: How traffic moves, and whether vectors may change.
            metrics: The alias's metrics.
            thresholds: What a version may not exceed.
        """
        super().__init__(scope, id)
        self.check = self._make_check(alias, model, release)
        self.alarms = self._make_alarms(metrics, thresholds)
        role = self._make_role(alias)
        self.deployment_group = codedeploy.LambdaDeploymentGroup(
            self,
            "Group",
            alias=alias,
            # The CDK would attach AWS's managed policy, which may move every alias of the account.
            role=role.without_policy_updates(),
            deployment_config=self._config(release),
            pre_hook=self.check,
            alarms=self.alarms,
            auto_rollback=codedeploy.AutoRollbackConfig(
                failed_deployment=True, stopped_deployment=True, deployment_in_alarm=True
            ),
        )
        # The alias names the group in its update policy, but nothing there names the role's policy:
        # CodeDeploy must be allowed to do its work before the alias moves.
        if alias.node.default_child:
            alias.node.default_child.node.add_dependency(role)

    def _make_check(
        self, alias: lambda_.Alias, model: Model, release: Release
    ) -> lambda_.DockerImageFunction:
        function = alias.version.lambda_
        scope = Construct(self, "Check")
        log_group = logs.LogGroup(
            scope,
            "Logs",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = function_role(scope, log_group)
        # By alias and by any version, never unqualified. A policy that named the newest version
        # would change seconds before the check runs, sooner than IAM tells all of AWS.
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"], resources=[f"{function.function_arn}:*"]
            )
        )
        name = Stack.of(self).resolve(function.node.default_child.logical_id)  # type: ignore[union-attr]
        Validations.of(role).acknowledge(
            Acknowledgment(
                id=f"AwsSolutions-IAM5[Resource::<{name}.Arn>:*]",
                reason="The check calls the new version and the one that serves now, by number.",
            )
        )
        check = lambda_.DockerImageFunction(
            scope,
            "Function",
            description="Warms and checks a new version before it is given traffic",
            code=image_code(model, command=["embedder.release_check.handler"]),
            architecture=lambda_.Architecture.ARM_64,
            memory_size=_CHECK_MEMORY_MB,
            timeout=_CHECK_TIMEOUT,
            environment={
                "RELEASE_FUNCTION": function.function_name,
                "RELEASE_VERSION": alias.version.version,
                "RELEASE_ALIAS": alias.alias_name,
                "RELEASE_ALLOW_VECTOR_SPACE_CHANGE": str(release.allow_vector_space_change).lower(),
            },
            role=role,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=lambda_.Tracing.ACTIVE,
        )
        Validations.of(check).acknowledge(
            Acknowledgment(
                id="Serverless-LambdaDLQ",
                reason="CodeDeploy waits for the check's answer, and takes none for a refusal.",
            )
        )
        return check

    def _make_alarms(
        self, metrics: EndpointMetrics, thresholds: Thresholds
    ) -> list[cloudwatch.Alarm]:
        crashes = metrics.of_version("Errors", "Sum")
        failures = cloudwatch.MathExpression(
            expression="IF(requests > 0, 100 * failures / requests, 0)",
            using_metrics={
                "failures": metrics.of_alias("Url5xxCount", "Sum"),
                "requests": metrics.of_alias("UrlRequestCount", "Sum"),
            },
            period=PERIOD,
            label="Failed requests, percent",
        )
        slow = metrics.of_version("Duration", "p99")
        return [
            self._alarm(
                "Crashes", crashes, 0, "The new version crashed, or ran out of time or memory"
            ),
            self._alarm(
                "Failures",
                failures,
                thresholds.error_percent,
                "Too many requests fail while a new version takes over",
            ),
            self._alarm(
                "Slow",
                slow,
                thresholds.duration_p99,
                "The new version's slowest hundredth takes half the timeout",
            ),
        ]

    def _alarm(
        self, id: str, metric: cloudwatch.IMetric, threshold: float, reason: str
    ) -> cloudwatch.Alarm:
        return cloudwatch.Alarm(
            self,
            id,
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=f"{reason}, so the release is taken back. Runbook: {RUNBOOK}#release",
        )

    def _make_role(self, alias: lambda_.Alias) -> iam.Role:
        function = alias.version.lambda_.function_arn
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=[
                    "lambda:GetAlias",
                    "lambda:GetProvisionedConcurrencyConfig",
                    "lambda:UpdateAlias",
                ],
                resources=[function, f"{function}:{alias.alias_name}"],
            )
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"], resources=[self.check.function_arn]
            )
        )
        # DescribeAlarms knows no resource: AWS lists it as an action on all of them.
        role.add_to_policy(
            iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=["*"])
        )
        Validations.of(role).acknowledge(
            Acknowledgment(
                id="AwsSolutions-IAM5[Resource::*]",
                reason="cloudwatch:DescribeAlarms, by which CodeDeploy reads the alarms, "
                "is granted on all alarms or on none.",
            )
        )
        return role

    def _config(self, release: Release) -> codedeploy.ILambdaDeploymentConfig:
        if isinstance(release, AllAtOnce):
            return codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE
        interval = Duration.minutes(int(release.interval.total_seconds() // 60))
        routing = (
            codedeploy.TimeBasedCanaryTrafficRouting
            if isinstance(release, Canary)
            else codedeploy.TimeBasedLinearTrafficRouting
        )
        return codedeploy.LambdaDeploymentConfig(
            self,
            "Steps",
            traffic_routing=routing(interval=interval, percentage=release.percent),
        )
