"""Records of the runs of shards, from which `embed batch status` adds up rows and cost.

A record is an empty file whose name says everything: a status lists the names, up to 1,000 in a
request, and reads no file. A shard that ran twice has two records, and both runs cost.
"""

from jobs.embed.job import Shard
from jobs.embed.parts import Counts

__all__ = ["PROGRESS_FOLDER", "progress_key"]

#: In the job's folder.
PROGRESS_FOLDER = "_job/progress"


def progress_key(shard: Shard, counts: Counts, *, seconds: float, memory_mb: int) -> str:
    """Return the path of a record in the job's folder.

    Args:
        shard: The shard.
        counts: What the run did.
        seconds: Its duration.
        memory_mb: The memory of the Lambda function that ran it.
    """
    return (
        f"{PROGRESS_FOLDER}/{shard.part}_rows={counts.rows}_rejected={counts.rejected}"
        f"_tokens={counts.tokens}_ms={round(1000 * seconds)}_mb={memory_mb}"
    )
