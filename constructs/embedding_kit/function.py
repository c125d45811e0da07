"""The function: the image on ARM64, with its own log group and a minimal role."""

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Size, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.image import image_code
from embedding_kit.settings import FunctionSettings, Model
from embedding_kit.settings.function import RETENTION_DAYS

__all__ = ["EmbeddingFunction", "environment_variables", "function_role"]


class EmbeddingFunction(Construct):
    """The Lambda function that serves requests, without its versions and aliases.

    Attributes:
        function: The function.
        log_group: The log group of the function and of the platform, in JSON format.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        settings: FunctionSettings,
        metrics_namespace: str,
        name: str,
        snap_start: bool,
    ) -> None:
        """Create the function.

        Args:
            scope: The parent.
            id: The construct's id.
            model: The model of the image.
            settings: Memory, time, disk, logs and concurrency.
            metrics_namespace: The namespace of the embedder's own metrics.
            name: The environment's name in the embedder's logs.
            snap_start: Whether published versions start from a snapshot.
        """
        super().__init__(scope, id)
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            retention=_retention(settings.log_retention_days),
            # Deleted if its creation is rolled back, because it has no logs yet.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            if settings.logs_on_destroy == "retain"
            else RemovalPolicy.DESTROY,
        )
        self.function = lambda_.DockerImageFunction(
            self,
            "Function",
            description=f"Embeddings by {model.name}",
            code=image_code(model),
            architecture=lambda_.Architecture.ARM_64,
            memory_size=settings.memory_mb,
            timeout=Duration.seconds(int(settings.timeout.total_seconds())),
            ephemeral_storage_size=Size.mebibytes(settings.ephemeral_storage_mb),
            reserved_concurrent_executions=settings.reserved_concurrency,
            environment=environment_variables(
                settings, metrics_namespace=metrics_namespace, name=name
            ),
            role=function_role(self, self.log_group),
            log_group=self.log_group,
            # The platform's own records, from which cold starts are measured, come as JSON only,
            # and only at INFO: a system level of WARN drops those of successful requests.
            logging_format=lambda_.LoggingFormat.JSON,
            system_log_level_v2=lambda_.SystemLogLevel.INFO,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            tracing=lambda_.Tracing.ACTIVE,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            current_version_options=lambda_.VersionOptions(
                # An old version costs nothing, and rollbacks and comparisons need it. With
                # SnapStart, its snapshot is billed as long as the version exists. A version whose
                # deploy was rolled back must be deleted: PublishVersion creates no version with
                # unchanged content, so the same commit could never be deployed again
                # (DeletionPolicy RetainExceptOnCreate).
                removal_policy=RemovalPolicy.DESTROY
                if snap_start
                else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            ),
        )
        Validations.of(self.function).acknowledge(
            Acknowledgment(
                id="Serverless-LambdaDLQ",
                reason="A URL calls the function and waits: only what nobody waits for goes to a "
                "dead-letter queue.",
            )
        )
        if snap_start:
            Validations.of(self.function).acknowledge(
                Acknowledgment(
                    id="Annotation::@aws-cdk/aws-lambda:snapStartRequirePublish",
                    reason="The alias points to a published version.",
                )
            )


def environment_variables(
    settings: FunctionSettings, *, metrics_namespace: str, name: str
) -> dict[str, str]:
    """Return the settings as environment variables; the embedder has defaults for unset ones."""
    optional = {
        "EMBEDDING_CACHE_ENTRIES": settings.cache_entries,
        "EMBEDDING_MAX_CHARACTERS": settings.max_characters,
        "EMBEDDING_THREADS": settings.threads,
    }
    return {
        "EMBEDDING_ENVIRONMENT": name,
        "EMBEDDING_METRICS_NAMESPACE": metrics_namespace,
        "EMBEDDING_TRUNCATE": settings.truncate,
    } | {name: str(value) for name, value in optional.items() if value is not None}


def function_role(scope: Construct, log_group: logs.LogGroup) -> iam.Role:
    """Create a role that may write to one log group and to X-Ray, and nothing else.

    AWS's managed policy for this lets a function write to every log group of the account.
    """
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    Validations.of(role).acknowledge(
        Acknowledgment(
            id="AwsSolutions-IAM5[Resource::*]",
            reason="X-Ray's actions to write traces know no resource to name.",
        )
    )
    return role


def _retention(days: int) -> logs.RetentionDays:
    # The CDK's members are in ascending order, with "never" as the last one.
    return dict(zip(RETENTION_DAYS, logs.RetentionDays, strict=False))[days]
