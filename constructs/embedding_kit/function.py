"""The function: an image or a zip on ARM64, with a log group and a minimal role.

`settings/compatibility.py` compares settings when they are read. `AliasResources` reads the
finished constructs: an app may have changed the resources, by the CDK's escape hatches or by
methods such as `alias.add_auto_scaling`.
"""

from collections.abc import Iterator
from typing import Any, Literal, cast

import jsii
from aws_cdk import Annotations, Duration, RemovalPolicy, Size
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IValidation

from embedding_kit.findings import acknowledge, acknowledge_untraced, acknowledge_wildcard
from embedding_kit.hosting import Hosting, let_call_aws, vpc_properties
from embedding_kit.package import ArtifactInS3, image_code, zip_code
from embedding_kit.programs import contract, python_version
from embedding_kit.settings import FunctionSettings, ModelSettings, artifact_in_s3
from embedding_kit.settings.base import rule_error
from embedding_kit.settings.function import RETENTION_DAYS
from embedding_kit.settings.model import model_notes
from embedding_kit.settings.package import SNAPSTART_STORAGE_MB, storage_mb
from embedding_kit.vector_index import IVectorIndex


def packaged_function(
    scope: Construct,
    id: str,
    *,
    package: Literal["image", "zip"],
    model: ModelSettings,
    with_artifact: bool = True,
    handler: str | None = None,
    tracing: lambda_.Tracing,
    **properties: Any,
) -> lambda_.Function:
    """Create a function on ARM64 that runs the code with the model."""
    properties |= {"architecture": lambda_.Architecture.ARM_64, "tracing": tracing}
    function: lambda_.Function
    if package == "image":
        code = image_code(model, command=[handler] if handler else None)
        function = lambda_.DockerImageFunction(scope, id, code=code, **properties)
    else:
        function = lambda_.Function(
            scope,
            id,
            code=zip_code(scope, model, with_artifact=with_artifact),
            handler=handler or contract().handlers["endpoint"],
            runtime=getattr(lambda_.Runtime, f"PYTHON_{python_version().replace('.', '_')}"),
            **properties,
        )
        reason = "The Python of the image, with the same packages."
        acknowledge(function, "AwsSolutions-L1", "Serverless-LambdaLatestVersion", reason=reason)
    acknowledge_untraced(function, tracing, "Serverless-LambdaTracing")
    return function


#: The id of a function's role.
_ROLE = "Role"


class EmbeddingFunction(Construct):
    """The Lambda function that serves requests, without its versions and aliases.

    Attributes:
        function: The function.
        log_group: The log group of the function and of the platform, in JSON format.

    Raises:
        ValueError: The settings also configure the log group.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: ModelSettings,
        settings: FunctionSettings,
        name: str,
        hosting: Hosting,
        snap_start: bool = False,
        keeps_versions: bool = True,
        role: iam.IRole | str | None = None,
        log_group: logs.ILogGroup | None = None,
    ) -> None:
        super().__init__(scope, id)
        for note in model_notes(model):
            Annotations.of(self).add_warning_v2("embedding-kit:unknownModel", note)
        self.log_group = self._make_log_group(settings, log_group)
        variables = logging_variables(name) | request_variables(settings)
        artifact = self._make_artifact(model, settings, hosting)
        if artifact:
            variables[contract().variables["artifact_location"]] = artifact.location
        execution_role = self._make_role(role)
        self.function = packaged_function(
            self,
            "Function",
            package=settings.package,
            model=model,
            with_artifact=artifact is None,
            memory_size=settings.memory_mb,
            timeout=Duration.seconds(int(settings.timeout.total_seconds())),
            ephemeral_storage_size=Size.mebibytes(
                storage_mb(model, in_s3=artifact is not None, snap_start=snap_start)
            ),
            reserved_concurrent_executions=settings.reserved_concurrency,
            environment=variables,
            role=execution_role,
            **vpc_properties(
                self,
                hosting,
                execution_role,
                description=f"Embedder of {name}",
                calls_aws=artifact is not None,
            ),
            **{"description": f"Embeddings by {model.name}", **hosting.function_props},
            environment_encryption=hosting.environment_encryption,
            log_group=self.log_group,
            # The platform's own records, from which cold starts are measured, come as JSON only,
            # and only at INFO: a system level of WARN drops those of successful requests.
            logging_format=lambda_.LoggingFormat.JSON,
            system_log_level_v2=lambda_.SystemLogLevel.INFO,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            tracing=hosting.tracing,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            current_version_options=lambda_.VersionOptions(
                # An old version costs nothing, and rollbacks and comparisons need it. With
                # SnapStart, its snapshot is billed as long as the version exists. A version of a
                # deploy that was rolled back must be deleted: PublishVersion creates none with
                # unchanged content, so the same commit could never be deployed again
                # (DeletionPolicy RetainExceptOnCreate).
                removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
                if keeps_versions and not snap_start
                else RemovalPolicy.DESTROY
            ),
        )
        if artifact:
            artifact.grant_read(self.function)
        acknowledge(
            self.function,
            "Serverless-LambdaDLQ",
            reason="A URL invokes the function synchronously: only asynchronous invocations use a "
            "dead-letter queue.",
        )
        if snap_start:
            rule = "Annotation::@aws-cdk/aws-lambda:snapStartRequirePublish"
            acknowledge(self.function, rule, reason="The alias points to a published version.")

    def add_vector_index(self, index: IVectorIndex) -> None:
        """Let the function search an index, which it reaches from its VPC too."""
        self.function.add_environment(contract().variables["vector_index"], index.index_arn)
        index.grant_query(self.function)
        group = self.node.try_find_child("SecurityGroup")
        if group is not None:
            let_call_aws(cast("ec2.ISecurityGroup", group))

    def _make_log_group(
        self, settings: FunctionSettings, own: logs.ILogGroup | None
    ) -> logs.ILogGroup:
        if own is None:
            # The CDK's members are in ascending order, with "never" as the last one.
            *members, _ = logs.RetentionDays
            retentions = dict(zip(RETENTION_DAYS, members, strict=True))
            return logs.LogGroup(
                self,
                "Logs",
                retention=retentions[settings.log_retention_days],
                removal_policy=RemovalPolicy.DESTROY,
            )
        if "log_retention_days" in settings.model_fields_set:
            raise rule_error(
                "a log group of your own has its own retention",
                found="log_group with function.log_retention_days",
                allowed="one of them",
            )
        return own

    def _make_artifact(
        self, model: ModelSettings, settings: FunctionSettings, hosting: Hosting
    ) -> ArtifactInS3 | None:
        if not artifact_in_s3(model, settings):
            return None
        key = hosting.environment_encryption
        return ArtifactInS3(self, "Artifact", model=model, key_arn=key.key_arn if key else None)

    def _make_role(self, given: iam.IRole | str | None) -> iam.IRole:
        if isinstance(given, str):
            # The CDK then creates no role here, and reports what this one must be allowed.
            iam.Role.customize_roles(self, use_precreated_roles={_ROLE: given})
            Annotations.of(self).add_info(
                f"the execution role {given} needs the trust policy and the permissions in "
                "iam-policy-report.txt of the cloud assembly (cdk.out)"
            )
        if given is None or isinstance(given, str):
            return function_role(self, self.log_group)
        self.log_group.grant_write(given)
        return given


def request_variables(settings: FunctionSettings) -> dict[str, str]:
    """Return the settings that decide how a request is answered, wherever the model is served.

    The embedder has defaults for unset ones.
    """
    names = contract().variables
    variables: dict[str, str] = {names["truncate"]: settings.truncate}
    if settings.cache_entries is not None:
        variables[names["cache_entries"]] = str(settings.cache_entries)
    if settings.mcp:
        variables[names["mcp"]] = "on"
    return variables


def logging_variables(name: str) -> dict[str, str]:
    """Return the names that a function has in its logs and metrics."""
    names = contract().variables
    return {names["environment"]: name, names["metrics_namespace"]: f"EmbeddingKit/{name}"}


def function_role(scope: Construct, log_group: logs.ILogGroup) -> iam.Role:
    """Create a role that may write to one log group and to X-Ray, and nothing else.

    AWS's managed policy for this lets a function write to every log group of the account.
    """
    role = iam.Role(scope, _ROLE, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    acknowledge_wildcard(
        role,
        "*",
        reason="X-Ray's actions to write traces, and those of a VPC's network interfaces, are "
        "granted on all resources or on none.",
    )
    return role


@jsii.implements(IValidation)
class AliasResources:
    """The function and the alias have no settings that AWS would reject, or bill without use."""

    def __init__(self, function: lambda_.Function, alias: lambda_.Alias) -> None:
        self._function = function
        self._alias = alias

    def validate(self) -> list[str]:
        """Return the errors; called by the CDK."""
        function, alias = self._function.node.default_child, self._alias.node.default_child
        if not isinstance(function, lambda_.CfnFunction) or not isinstance(alias, lambda_.CfnAlias):
            return []
        scaled = any(isinstance(n, scaling.CfnScalableTarget) for n in self._alias.node.find_all())
        return list(_errors(function, alias, scaled=scaled))


def _errors(
    function: lambda_.CfnFunction, alias: lambda_.CfnAlias, *, scaled: bool
) -> Iterator[str]:
    static = alias.provisioned_concurrency_config is not None
    if static and scaled:
        yield (
            "a static count of provisioned concurrency and its scaling would set the same number "
            "against each other; found: both; allowed: one of them"
        )
    if alias.routing_config is not None and (static or scaled):
        yield (
            "AWS refuses to change the provisioned concurrency of an alias that has weights; "
            "found: both; allowed: one of them, or a second alias with a URL of its own"
        )
    if function.snap_start is None:
        return
    without_snapstart = 'another cold_start.kind than "snapstart"'
    if static or scaled:
        yield (
            "SnapStart takes no provisioned concurrency; found: both; "
            f"allowed: no provisioned concurrency, or {without_snapstart}"
        )
    if function.file_system_configs:
        yield (
            "SnapStart takes no EFS file system; found: a file system on the function; "
            f"allowed: no file system, or {without_snapstart}"
        )
    storage = function.ephemeral_storage
    size = storage.size if isinstance(storage, lambda_.CfnFunction.EphemeralStorageProperty) else 0
    if size > SNAPSTART_STORAGE_MB:
        yield (
            f"SnapStart takes no /tmp over {SNAPSTART_STORAGE_MB} MB; found: {size} MB; "
            f"allowed: {SNAPSTART_STORAGE_MB} MB, or {without_snapstart}"
        )
