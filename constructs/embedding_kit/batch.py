"""Batch jobs: a function of their own, and the state machine that runs it over all shards."""

from aws_cdk import Acknowledgment, Aws, Duration, Names, RemovalPolicy, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from embedding_kit.batch_definition import TIMEOUT_SECONDS, batch_definition
from embedding_kit.batch_permissions import (
    acknowledged,
    grant_machine_files,
    grant_map_runs,
    grant_worker_files,
)
from embedding_kit.function import function_role
from embedding_kit.image import image_code
from embedding_kit.settings import BatchSettings, Model, check_memory

__all__ = ["EmbeddingBatch"]

#: The handler of the image's target `batch`.
_COMMAND = ["batch_embedding.handler.handler"]


class EmbeddingBatch(Construct):
    """Batch jobs over files in S3.

    An execution of the state machine plans a job, embeds its shards in parallel, and checks that
    none is missing. Its input has the job's settings; `{}` embeds everything below `input`.

    Attributes:
        function: The function that runs the steps.
        state_machine: The state machine.
        log_group: The function's log group.
        settings: The settings.
        name: The name in logs and in the metrics' namespace.
        namespace: The namespace of the function's own metrics.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        settings: BatchSettings,
        name: str | None = None,
        environment_encryption: kms.IKey | None = None,
        tracing: lambda_.Tracing = lambda_.Tracing.ACTIVE,
    ) -> None:
        """Create the function and the state machine.

        Args:
            scope: The parent.
            id: The construct's id.
            model: The model that embeds; an endpoint with the same model has the same vectors.
            settings: The folders in S3, memory and concurrency.
            name: The name in logs and in the metrics' namespace; by default derived from the
                construct's path.
            environment_encryption: A key for the environment variables; by default Lambda's own.
            tracing: Whether X-Ray traces the function and the state machine.

        Raises:
            ValueError: The model needs more memory.
        """
        super().__init__(scope, id)
        check_memory(model, settings, table="batch")
        self.settings = settings
        self.name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        self.namespace = f"EmbeddingKit/{self.name}"
        self.log_group = _log_group(self, "Logs")
        self.function = self._make_function(model, environment_encryption, tracing)
        self.state_machine = self._make_machine(tracing)
        _acknowledge(self, acknowledged(self.state_machine, settings))

    def _make_function(
        self, model: Model, key: kms.IKey | None, tracing: lambda_.Tracing
    ) -> lambda_.DockerImageFunction:
        settings = self.settings
        role = function_role(self, self.log_group)
        grant_worker_files(role, settings)
        function = lambda_.DockerImageFunction(
            self,
            "Function",
            description=f"Batches of embeddings by {model.name}",
            code=image_code(model, command=_COMMAND, target="batch"),
            architecture=lambda_.Architecture.ARM_64,
            memory_size=settings.memory_mb,
            timeout=Duration.seconds(TIMEOUT_SECONDS),
            reserved_concurrent_executions=settings.reserved_concurrency,
            environment={
                "EMBEDDING_ENVIRONMENT": self.name,
                "EMBEDDING_METRICS_NAMESPACE": self.namespace,
            },
            environment_encryption=key,
            role=role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=tracing,
        )
        _acknowledge(
            function,
            {"Serverless-LambdaDLQ": "Step Functions waits for the answer and tries again."},
        )
        return function

    def _make_machine(self, tracing: lambda_.Tracing) -> stepfunctions.StateMachine:
        settings = self.settings
        definition = batch_definition(
            function_arn=self.function.function_arn,
            partition=Aws.PARTITION,
            bucket=settings.destination.bucket,
            defaults={
                "source": settings.input,
                "destination": settings.output,
                "max_rejected_percent": settings.max_rejected_percent,
            },
            max_concurrency=settings.max_concurrency,
        )
        machine = stepfunctions.StateMachine(
            self,
            "StateMachine",
            comment=f"Batches of {self.name}",
            definition_body=stepfunctions.DefinitionBody.from_string(
                Stack.of(self).to_json_string(definition)
            ),
            logs=stepfunctions.LogOptions(
                # Step Functions may write to groups of this name without a change of the account's
                # one policy for log deliveries, which has a size limit.
                destination=_log_group(
                    self,
                    "StateMachineLogs",
                    name=Names.unique_resource_name(self, separator="-", max_length=200),
                ),
                level=stepfunctions.LogLevel.ALL,
                include_execution_data=False,
            ),
            tracing_enabled=tracing is not lambda_.Tracing.DISABLED,
        )
        machine.add_to_role_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"], resources=[self.function.function_arn]
            )
        )
        grant_machine_files(machine, settings)
        grant_map_runs(self, machine)
        return machine


def _log_group(scope: Construct, id: str, *, name: str | None = None) -> logs.LogGroup:
    return logs.LogGroup(
        scope,
        id,
        log_group_name=None if name is None else f"/aws/vendedlogs/states/{name}",
        retention=logs.RetentionDays.THREE_MONTHS,
        removal_policy=RemovalPolicy.DESTROY,
    )


def _acknowledge(scope: Construct, reasons: dict[str, str]) -> None:
    for rule, reason in reasons.items():
        Validations.of(scope).acknowledge(Acknowledgment(id=rule, reason=reason))
