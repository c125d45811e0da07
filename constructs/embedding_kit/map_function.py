"""The function that runs the steps of a `map_definition`, in the image of batch jobs."""

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_untraced
from embedding_kit.hosting import Hosting, vpc_properties
from embedding_kit.image import image_code
from embedding_kit.map_definition import TIMEOUT_SECONDS
from embedding_kit.settings import Model

__all__ = ["make_function"]


def make_function(
    scope: Construct,
    *,
    description: str,
    model: Model,
    handler: str,
    memory_mb: int,
    environment: dict[str, str],
    role: iam.IRole,
    log_group: logs.ILogGroup,
    hosting: Hosting,
    reserved_concurrency: int | None = None,
) -> lambda_.DockerImageFunction:
    """Create a function from the image's target `batch`.

    Args:
        scope: The parent, which has one of them.
        description: What the function does.
        model: The model in the image.
        handler: The handler in the image.
        memory_mb: The memory in MB.
        environment: The environment variables.
        role: The execution role.
        log_group: The log group.
        hosting: The VPC, the key and the tracing.
        reserved_concurrency: The reserved concurrency; None reserves none.
    """
    function = lambda_.DockerImageFunction(
        scope,
        "Function",
        description=description,
        code=image_code(model, command=[handler], target="batch"),
        architecture=lambda_.Architecture.ARM_64,
        memory_size=memory_mb,
        timeout=Duration.seconds(TIMEOUT_SECONDS),
        reserved_concurrent_executions=reserved_concurrency,
        environment=environment,
        environment_encryption=hosting.environment_encryption,
        role=role,
        log_group=log_group,
        logging_format=lambda_.LoggingFormat.JSON,
        tracing=hosting.tracing,
        **vpc_properties(scope, hosting, role, description=description, calls_aws=True),
    )
    acknowledge(
        function,
        {"Serverless-LambdaDLQ": "Step Functions waits for the answer and tries again."},
    )
    acknowledge_untraced(function, hosting.tracing, "Serverless-LambdaTracing")
    return function
