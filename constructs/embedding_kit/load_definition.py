"""The state machine of loads: Plan → HasParts → Parts (Distributed Map: Load) → Finish."""

from typing import Any

from embedding_kit.map_definition import MapNames, map_definition

__all__ = ["MAP_LABEL", "PARTS_FILE", "RESULTS_FOLDER", "load_definition"]

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
