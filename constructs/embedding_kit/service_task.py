"""The tasks of a server: their container, variables and permissions."""

from aws_cdk import Aws, Duration
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.image import image_asset
from embedding_kit.settings import Model, ServerSettings
from embedding_kit.vector_index import IVectorIndex

__all__ = ["PORT", "make_task", "server_variables"]

#: Where the server listens.
PORT = 8080
#: Longer than the server's own drain of 25 s; Fargate allows 120.
#: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_definition_parameters.html
_STOP_TIMEOUT = Duration.seconds(40)


def make_task(
    scope: Construct,
    *,
    model: Model,
    settings: ServerSettings,
    variables: dict[str, str],
    vector_index: IVectorIndex | None,
    log_group: logs.ILogGroup,
) -> ecs.FargateTaskDefinition:
    """Create the definition of the server's tasks.

    Args:
        scope: The parent.
        model: The model.
        settings: The size, the keys and the traces.
        variables: The variables of `server_variables`, and those of requests.
        vector_index: The index in S3 Vectors that the server searches.
        log_group: The log group.
    """
    image = image_asset(scope, "Image", model, target="server")
    task = ecs.FargateTaskDefinition(
        scope,
        "Task",
        cpu=settings.cpu,
        memory_limit_mib=settings.memory_mb,
        runtime_platform=ecs.RuntimePlatform(
            cpu_architecture=ecs.CpuArchitecture.ARM64,
            operating_system_family=ecs.OperatingSystemFamily.LINUX,
        ),
    )
    task.add_container(
        "Server",
        image=ecs.ContainerImage.from_docker_image_asset(image),
        # Both are given, since the image's own are Lambda's.
        entry_point=["python", "-m"],
        command=["embedder.server"],
        port_mappings=[ecs.PortMapping(container_port=PORT)],
        environment=variables
        | ({"EMBEDDING_VECTOR_INDEX": vector_index.index_arn} if vector_index else {}),
        secrets=_keys(scope, settings),
        logging=ecs.LogDriver.aws_logs(stream_prefix="server", log_group=log_group),
        readonly_root_filesystem=True,
        # A user who owns no file, as in Lambda. By default it would be root.
        user="65534:65534",
        stop_timeout=_STOP_TIMEOUT,
    )
    if vector_index:
        vector_index.grant_query(task.task_role)
    acknowledge(
        task,
        {
            "AwsSolutions-ECS2": "The variables are settings; keys are a secret by reference.",
        },
    )
    role = task.obtain_execution_role()
    if settings.keys_secret_key:
        role.add_to_principal_policy(
            iam.PolicyStatement(
                actions=["kms:Decrypt"],
                resources=[settings.keys_secret_key],
                conditions={
                    "StringEquals": {"kms:ViaService": f"secretsmanager.{Aws.REGION}.amazonaws.com"}
                },
            )
        )
    acknowledge(
        role,
        {
            "AwsSolutions-IAM5[Resource::*]": "ecr:GetAuthorizationToken is granted on all "
            "resources or on none.",
        },
    )
    return task


def _keys(scope: Construct, settings: ServerSettings) -> dict[str, ecs.Secret] | None:
    if settings.keys_secret is None:
        return None
    secret = secretsmanager.Secret.from_secret_complete_arn(scope, "Keys", settings.keys_secret)
    return {"EMBEDDING_SERVER_KEYS": ecs.Secret.from_secrets_manager(secret)}


def server_variables(settings: ServerSettings, name: str) -> dict[str, str]:
    """Return the variables of the server alone; `name` is in its logs and traces."""
    return {
        "EMBEDDING_ENVIRONMENT": name,
        "EMBEDDING_SERVER_PORT": str(PORT),
        # A task sees the cores of the machine that it shares.
        "EMBEDDING_SERVER_WORKERS": str(max(1, settings.cpu // 1024)),
        **({"EMBEDDING_SERVER_NO_KEYS": "true"} if settings.no_keys else {}),
        **_traces(settings, name),
    }


def _traces(settings: ServerSettings, name: str) -> dict[str, str]:
    """Return OpenTelemetry's variables.

    https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
    """
    if settings.otlp_endpoint is None:
        return {}
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": settings.otlp_endpoint,
        "OTEL_RESOURCE_ATTRIBUTES": f"deployment.environment.name={name}",
    }
