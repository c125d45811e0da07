"""The files that describe a job, in its folder, and what its parts say of themselves.

part-000000.parquet …   ids, embeddings and metadata, one file for each shard
_rejected/part-….jsonl  the rows without an embedding, with the reasons
_job/job.json           the settings
_job/shards.jsonl       the plan, one shard a line
_job/manifest.json      the result, written when the job is complete
"""

__all__ = [
    "COUNTS_KEY",
    "EMBEDDING_COLUMN",
    "ID_COLUMN",
    "JOB_FILE",
    "RESULT_FILE",
    "SHARDS_FILE",
    "VECTOR_SPACE_KEY",
]

JOB_FILE = "_job/job.json"
#: The plan, one shard a line.
SHARDS_FILE = "_job/shards.jsonl"
RESULT_FILE = "_job/manifest.json"
#: The keys of a part's footer. The first is what `embed` writes too.
VECTOR_SPACE_KEY = "vector_space"
COUNTS_KEY = "embedding_batch"
#: The columns of a part beside the metadata.
ID_COLUMN = "id"
EMBEDDING_COLUMN = "embedding"
