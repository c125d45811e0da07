"""Batch jobs, and loads of their output into a vector index: functions and state machines."""

from aws_cdk import aws_iam as iam
from constructs import Construct

from embedding_kit.distributed_map import DistributedJobs, MapProgram
from embedding_kit.findings import acknowledge_wildcard
from embedding_kit.hosting import Hosting
from embedding_kit.permissions import READ_KEY, WRITE_KEY, allow, allow_keys, allow_listing, objects
from embedding_kit.settings import BatchSettings, ModelSettings, VectorIndexSettings
from embedding_kit.settings.compatibility import check_memory
from embedding_kit.settings.locations import location_of
from embedding_kit.vector_index import IVectorIndex

_BATCH_PROGRAM = MapProgram(
    job="embed", label="Shards", task="Embed", comment="Embeds the files of a folder in shards"
)
_LOAD_PROGRAM = MapProgram(
    job="load", label="Parts", task="Load", comment="Loads the output of a batch job into an index"
)
#: Five workers of a load, each with a request of 500 vectors a second, make the 2,500 vectors that
#: AWS takes for an index.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html
_LOAD_WORKERS, _VECTORS_PER_SECOND = 5, 500
#: A load encodes and sends 500 vectors a second, which takes a small part of a vCPU.
_LOAD_MEMORY_MB = 1024
#: The records of loads, below the jobs' folders.
_RECORDS = "*/_load/*"


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
        model: ModelSettings,
        settings: BatchSettings,
        name: str | None = None,
        hosting: Hosting | None = None,
    ) -> None:
        check_memory(model, settings, table="batch")
        self.settings = settings
        super().__init__(
            scope,
            id,
            program=_BATCH_PROGRAM,
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


class IndexLoading(DistributedJobs):
    """Loads the output of batch jobs into an index.

    An execution of the state machine loads the job in its input's `source`, or the only one below
    the folder of all jobs. Loads of one index share its rate, so run one at a time.
    For its attributes, see `DistributedJobs`.

    Args:
        model: The model of the index. It is in the image, which batch jobs share, and is not
            loaded.
        index: The index.
        source: The folder with the output of batch jobs, `s3://BUCKET/PREFIX`.
        settings: The columns; by default all of them.
        name: As of `EmbeddingBatch`.
        hosting: As of `EmbeddingBatch`.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: ModelSettings,
        index: IVectorIndex,
        source: str,
        settings: VectorIndexSettings | None = None,
        name: str | None = None,
        hosting: Hosting | None = None,
    ) -> None:
        settings = settings or VectorIndexSettings()
        self._index = index
        super().__init__(
            scope,
            id,
            program=_LOAD_PROGRAM,
            model=model,
            title="Loads of vectors",
            memory_mb=_LOAD_MEMORY_MB,
            location=location_of(source),
            defaults={
                "source": source,
                "index": index.index_arn,
                **({"metadata": list(settings.metadata)} if settings.metadata else {}),
            },
            max_concurrency=_LOAD_WORKERS,
            worker={"vectors_per_second": _VECTORS_PER_SECOND},
            name=name,
            hosting=hosting or Hosting(),
        )

    def _grant(self, role: iam.IRole) -> None:
        jobs, records = objects(self._location), objects(self._location, _RECORDS)
        allow(role, ["s3:GetObject"], [jobs], sid="ReadJobs")
        allow(role, ["s3:PutObject"], [records], sid="WriteRecords")
        allow_listing(role, "ListJobs", self._location)
        allow_keys(role, "EncryptRecords", WRITE_KEY, self.keys, self._location)
        self._index.grant_load(role)
        acknowledge_wildcard(self, jobs, reason="A load reads the files of any job.")
        reason = "A load writes into another folder, with a computed name."
        acknowledge_wildcard(self, records, reason=reason)
