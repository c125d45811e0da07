"""The state machine of a batch: Plan → HasShards → Shards (Distributed Map: Embed) → Finish."""

from typing import Any

from embedding_kit.map_definition import MapNames, map_definition

__all__ = ["MAP_LABEL", "RESULTS_FOLDER", "SHARDS_FILE", "batch_definition"]

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
