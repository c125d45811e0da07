"""Batch jobs: a function of their own, and the state machine that runs it over all shards."""

from typing import Any

from aws_cdk import Aws, Names
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from embedding_kit.distributed_map import (
    MapFiles,
    MapNames,
    acknowledge_wildcards,
    make_function,
    make_machine,
    map_definition,
    map_findings,
)
from embedding_kit.function import function_role
from embedding_kit.hosting import Hosting, make_log_group
from embedding_kit.s3_permissions import (
    READ_KEY,
    WRITE_KEY,
    allow,
    allow_listing,
    objects,
    shown,
)
from embedding_kit.settings import BatchSettings, Model, check_memory

__all__ = ["MAP_LABEL", "RESULTS_FOLDER", "SHARDS_FILE", "EmbeddingBatch", "batch_definition"]

#: The label of the map's child executions in their ARNs.
MAP_LABEL = "Shards"
#: The plan and the records of the shards, in the job's folder.
SHARDS_FILE = "_job/shards.jsonl"
RESULTS_FOLDER = "_job/results"
#: A second attempt would find the same: errors of the input, the settings or the model.
_FINAL_ERRORS = (
    "BatchError",
    "ChangedInputError",
    "ChangedModelError",
    "IncompleteJobError",
    "RejectedRowsError",
)


def batch_definition(
    *,
    function_arn: str,
    partition: str,
    bucket: str,
    defaults: dict[str, Any],
    max_concurrency: int,
) -> dict[str, Any]:
    """Return the definition; see `map_definition` for the arguments."""
    return map_definition(
        MapNames(label=MAP_LABEL, task="Embed", item="shard"),
        comment="Embeds the files of a folder in shards",
        function_arn=function_arn,
        partition=partition,
        bucket=bucket,
        defaults=defaults,
        max_concurrency=max_concurrency,
        final_errors=_FINAL_ERRORS,
    )


#: The handler in the image's target `batch`.
_HANDLER = "jobs.embed.handler.handler"


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
        hosting: Hosting | None = None,
    ) -> None:
        """Create the function and the state machine.

        Args:
            scope: The parent.
            id: The construct's id.
            model: The model that embeds; an endpoint with the same model has the same vectors.
            settings: The folders in S3, memory and concurrency.
            name: The name in logs and in the metrics' namespace; by default derived from the
                construct's path.
            hosting: VPC, key and tracing of the function; the state machine is traced too.
                Default: no VPC, no key, no traces.

        Raises:
            ValueError: The model needs more memory.
        """
        super().__init__(scope, id)
        check_memory(model, settings, table="batch")
        self.settings = settings
        self.name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        self.namespace = f"EmbeddingKit/{self.name}"
        self.log_group = make_log_group(self, "Logs")
        hosting = hosting or Hosting()
        self.function = self._make_function(model, hosting)
        files = MapFiles(settings.destination, SHARDS_FILE, RESULTS_FOLDER, settings.output_key)
        self.state_machine = self._make_machine(files, hosting)
        acknowledge_wildcards(
            self,
            {
                shown(settings.source): "A job reads all files of the input's folder.",
                shown(settings.destination): "A job writes into a folder of its own, whose name is "
                "computed.",
                **map_findings(self.state_machine, files, label=MAP_LABEL),
            },
        )

    def _make_function(self, model: Model, hosting: Hosting) -> lambda_.DockerImageFunction:
        settings = self.settings
        role = function_role(self, self.log_group)
        _grant_files(role, settings)
        return make_function(
            self,
            description=f"Batches of embeddings by {model.name}",
            model=model,
            handler=_HANDLER,
            memory_mb=settings.memory_mb,
            environment={
                "EMBEDDING_ENVIRONMENT": self.name,
                "EMBEDDING_METRICS_NAMESPACE": self.namespace,
            },
            role=role,
            log_group=self.log_group,
            hosting=hosting,
            reserved_concurrency=settings.reserved_concurrency,
        )

    def _make_machine(self, files: MapFiles, hosting: Hosting) -> stepfunctions.StateMachine:
        settings = self.settings
        definition = batch_definition(
            function_arn=self.function.function_arn,
            partition=Aws.PARTITION,
            bucket=settings.destination.bucket,
            defaults={
                "source": settings.input,
                "destination": settings.output,
            },
            max_concurrency=settings.max_concurrency,
        )
        return make_machine(
            self,
            comment=f"Batches of {self.name}",
            definition=definition,
            function=self.function,
            files=files,
            label=MAP_LABEL,
            hosting=hosting,
        )


def _grant_files(role: iam.IRole, settings: BatchSettings) -> None:
    """Let the function read the input, and read and write the output."""
    read, write = settings.source, settings.destination
    allow(role, "ReadInput", ["s3:GetObject"], [objects(read)])
    allow(role, "WriteOutput", ["s3:GetObject", "s3:PutObject"], [objects(write)])
    allow_listing(role, "ListInput", read)
    allow_listing(role, "ListOutput", write)
    if settings.input_key:
        allow(role, "DecryptInput", READ_KEY, [settings.input_key])
    if settings.output_key:
        allow(role, "EncryptOutput", WRITE_KEY, [settings.output_key])
