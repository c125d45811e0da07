"""Batch jobs: another function, and the state machine that runs it over all shards."""

from aws_cdk import aws_iam as iam
from constructs import Construct

from embedding_kit.distributed_map import DistributedJobs, MapProgram
from embedding_kit.findings import acknowledge_wildcard
from embedding_kit.hosting import Hosting
from embedding_kit.permissions import READ_KEY, WRITE_KEY, allow, allow_keys, allow_listing, objects
from embedding_kit.settings import BatchSettings, Model
from embedding_kit.settings.compatibility import check_memory

PROGRAM = MapProgram(
    handler="jobs.embed.handler.handler",
    label="Shards",
    task="Embed",
    item="shard",
    plan="_job/shards.jsonl",
    results="_job/results",
    comment="Embeds the files of a folder in shards",
    final_errors=(
        "BatchError",
        "ChangedInputError",
        "ChangedModelError",
        "IncompleteJobError",
        "RejectedRowsError",
    ),
)


class EmbeddingBatch(DistributedJobs):
    """Batch jobs over files in S3.

    An execution of the state machine plans a job, embeds its shards in parallel, and checks that
    none is missing. Its input has the job's settings; `{}` embeds everything below `input`.

    Args:
        model: The model that embeds; an endpoint with the same model has the same vectors.
        settings: The folders in S3, memory and concurrency.
        name: The name in logs and in the metrics' namespace; by default derived from the
            construct's path.
        hosting: VPC, keys and tracing of the function; the state machine is traced too. Default: no
            VPC, no keys, no traces.

    Attributes:
        settings: The settings. For the others, see `DistributedJobs`.

    Raises:
        ValueError: The model needs more memory.
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
        check_memory(model, settings, table="batch")
        self.settings = settings
        super().__init__(
            scope,
            id,
            program=PROGRAM,
            model=model,
            title="Batches of embeddings",
            memory_mb=settings.memory_mb,
            location=settings.destination,
            defaults={"source": settings.input, "destination": settings.output},
            max_concurrency=settings.max_concurrency,
            name=name,
            hosting=hosting or Hosting(),
            reserved_concurrency=settings.reserved_concurrency,
        )

    def _grant(self, role: iam.IRole) -> None:
        read, write = self.settings.source, self.settings.destination
        allow(role, ["s3:GetObject"], [objects(read)], sid="ReadInput")
        allow(role, ["s3:GetObject", "s3:PutObject"], [objects(write)], sid="WriteOutput")
        allow_listing(role, "ListInput", read)
        allow_listing(role, "ListOutput", write)
        allow_keys(role, "DecryptInput", READ_KEY, self.keys, read)
        allow_keys(role, "EncryptOutput", WRITE_KEY, self.keys, write)
        reason = "A job reads all files of the input's folder."
        acknowledge_wildcard(self, objects(read), reason=reason)
        reason = "A job writes into another folder, with a computed name."
        acknowledge_wildcard(self, objects(write), reason=reason)
