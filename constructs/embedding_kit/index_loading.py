"""Loads of batch output into a vector index: a function, and the state machine that runs it."""

from typing import Any

from aws_cdk import Aws, Names
from aws_cdk import aws_iam as iam
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
from embedding_kit.s3_permissions import WRITE_KEY, allow, allow_listing, objects, shown
from embedding_kit.settings import LoadSource, Model, VectorIndexSettings
from embedding_kit.vector_index import IVectorIndex

__all__ = ["MAP_LABEL", "PARTS_FILE", "RESULTS_FOLDER", "IndexLoading", "load_definition"]

#: The label of the map's child executions in their ARNs.
MAP_LABEL = "Parts"
#: The plan and the records of the parts, below the job's folder; `*` is the load and its round.
PARTS_FILE = "_load/*/parts.jsonl"
RESULTS_FOLDER = "_load/*/results"
#: A second attempt would find the same: errors of the job, the settings or the index.
_FINAL_ERRORS = (
    "BatchError",
    "ChangedInputError",
    "IncompleteJobError",
    "RejectedRowsError",
    "VectorSpaceError",
)
#: S3 Vectors throttles for longer than the function's own attempts, or does not answer.
_PASSING_ERRORS = ("UnavailableError",)
#: Each writes requests of up to 500 vectors, so that five a second make the 2,500 vectors that AWS
#: takes.
_VECTORS_PER_WORKER = 500


def load_definition(
    *,
    function_arn: str,
    partition: str,
    bucket: str,
    defaults: dict[str, Any],
    vectors_per_second: int,
) -> dict[str, Any]:
    """Return the definition; see `map_definition` for the other arguments.

    Args:
        function_arn: The function.
        partition: The AWS partition.
        bucket: The bucket of the job.
        defaults: The settings of a load that an execution's input does not give.
        vectors_per_second: The highest rate of all workers together.
    """
    workers = max(1, vectors_per_second // _VECTORS_PER_WORKER)
    return map_definition(
        MapNames(label=MAP_LABEL, task="Load", item="part"),
        comment="Loads the output of a batch job into an index",
        function_arn=function_arn,
        partition=partition,
        bucket=bucket,
        defaults=defaults,
        max_concurrency=workers,
        final_errors=_FINAL_ERRORS,
        passing_errors=_PASSING_ERRORS,
        worker={"vectors_per_second": vectors_per_second // workers},
    )


#: The handler in the image's target `batch`.
_HANDLER = "jobs.ingest.handler.handler"
#: It encodes and sends 500 vectors a second, which takes a small part of a vCPU.
_MEMORY_MB = 1024
#: The records of loads, below the jobs' folders.
_RECORDS = "*/_load/*"


class IndexLoading(Construct):
    """Loads the output of batch jobs into an index.

    An execution of the state machine loads the job in its input's `source`, or the only one below
    the folder of all jobs. Loads of one index share its rate, so run one at a time.

    Attributes:
        function: The function that runs the steps.
        state_machine: The state machine.
        log_group: The function's log group.
        name: The name in logs and in the metrics' namespace.
        namespace: The namespace of the function's own metrics.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        index: IVectorIndex,
        source: LoadSource,
        settings: VectorIndexSettings | None = None,
        name: str | None = None,
        hosting: Hosting | None = None,
    ) -> None:
        """Create the function and the state machine.

        Args:
            scope: The parent.
            id: The construct's id.
            model: The model of the index. It is in the image, which batch jobs share, and is not
                loaded.
            index: The index.
            source: The folder with the output of batch jobs, and its KMS key.
            settings: The columns and the rate; by default all columns at AWS's highest rate.
            name: The name in logs and in the metrics' namespace; by default derived from the
                construct's path.
            hosting: VPC, key and tracing of the function; the state machine is traced too.
                Default: no VPC, no key, no traces.
        """
        super().__init__(scope, id)
        settings = settings or VectorIndexSettings()
        hosting = hosting or Hosting()
        self.name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        self.namespace = f"EmbeddingKit/{self.name}"
        self.log_group = make_log_group(self, "Logs")
        role = function_role(self, self.log_group)
        _grant_files(role, source)
        index.grant_load(role)
        self.function = make_function(
            self,
            description=f"Loads of vectors by {model.name}",
            model=model,
            handler=_HANDLER,
            memory_mb=_MEMORY_MB,
            environment={
                "EMBEDDING_ENVIRONMENT": self.name,
                "EMBEDDING_METRICS_NAMESPACE": self.namespace,
            },
            role=role,
            log_group=self.log_group,
            hosting=hosting,
        )
        files = MapFiles(source.location, PARTS_FILE, RESULTS_FOLDER, source.key)
        self.state_machine = make_machine(
            self,
            comment=f"Loads of {self.name}",
            definition=load_definition(
                function_arn=self.function.function_arn,
                partition=Aws.PARTITION,
                bucket=source.location.bucket,
                defaults={
                    "source": source.url,
                    "index": index.index_arn,
                    **({"metadata": list(settings.metadata)} if settings.metadata else {}),
                },
                vectors_per_second=settings.vectors_per_second,
            ),
            function=self.function,
            files=files,
            label=MAP_LABEL,
            hosting=hosting,
        )
        acknowledge_wildcards(
            self,
            {
                shown(source.location): "A load reads the files of any job.",
                shown(source.location, _RECORDS): "A load writes into a folder of its own, whose "
                "name is computed.",
                **map_findings(self.state_machine, files, label=MAP_LABEL),
            },
        )


def _grant_files(role: iam.IRole, source: LoadSource) -> None:
    """Let the function read the jobs, and write the records of loads."""
    allow(role, "ReadJobs", ["s3:GetObject"], [objects(source.location)])
    allow(role, "WriteRecords", ["s3:PutObject"], [objects(source.location, _RECORDS)])
    allow_listing(role, "ListJobs", source.location)
    if source.key:
        allow(role, "EncryptRecords", WRITE_KEY, [source.key])
