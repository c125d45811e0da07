"""The check of a new version, as a custom resource that the alias depends on."""

from aws_cdk import CfnOutput, CustomResource, Duration, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import custom_resources as custom
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_wildcard
from embedding_kit.function import function_role, packaged_function
from embedding_kit.hosting import Hosting, make_log_group
from embedding_kit.permissions import allow
from embedding_kit.release import breaks_glass
from embedding_kit.settings import (
    ColdStart,
    Experiment,
    FunctionSettings,
    Model,
    Provisioned,
    Release,
    artifact_in_s3,
)

#: The check reads a manifest and compares a few vectors; it mostly waits for cold starts.
_MEMORY_MB = 512
_TIMEOUT = Duration.minutes(5)
#: CloudFormation waits an hour by default.
_SERVICE_TIMEOUT = Duration.minutes(10)
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
        resource: The custom resource.
        vector_space: The vector space of the version that was checked.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        alias: lambda_.Alias,
        model: Model,
        settings: FunctionSettings,
        release: Release,
        cold_start: ColdStart | None,
        experiment: Experiment | None,
        hosting: Hosting,
    ) -> None:
        """Check every version before the alias serves it, outside of the VPC."""
        super().__init__(scope, id)
        self._hosting = hosting
        self.function = self._make_function(alias, model, settings)
        provider = self._make_provider()
        other = str(experiment.version) if experiment and experiment.percent else ""
        # The value follows below; the name is needed here.
        record = CfnOutput(self, "VectorSpace", value="unknown")
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::ReleaseCheck",
            service_token=provider.service_token,
            service_timeout=_SERVICE_TIMEOUT,
            properties={
                "Function": alias.version.lambda_.function_name,
                "Version": alias.version.version,
                "WarmStarts": str(_warm_starts(settings.reserved_concurrency, cold_start)),
                "Alias": alias.alias_name,
                "OtherVersion": other,
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

    def _make_function(
        self, alias: lambda_.Alias, model: Model, settings: FunctionSettings
    ) -> lambda_.Function:
        log_group = make_log_group(self, "Logs")
        role = function_role(self, log_group)
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
            handler="jobs.release_check.handler.handler",
            description="Warms and checks a new version before the alias moves to it",
            memory_size=_MEMORY_MB,
            timeout=_TIMEOUT,
            role=role,
            log_group=log_group,
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
