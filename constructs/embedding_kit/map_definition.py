"""A state machine that plans items, works on each, and checks the result, as plain values.

    Plan → Has… → the items (Distributed Map) → Finish

It is in Amazon States Language: https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["TIMEOUT_SECONDS", "MapNames", "map_definition"]

#: Lambda's limit, which the plan of a large input needs.
TIMEOUT_SECONDS = 900
#: An EXPRESS execution ends after 5 minutes, attempts and pauses included. A little less, so that
#: its error is that of the task.
_CHILD_SECONDS = 280
#: Lambda's own failures and throttles, as the service names them.
_SERVICE_ERRORS = (
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
)


class MapNames(NamedTuple):
    """The names in a definition."""

    #: The state of the map, and the label of its child executions in their ARNs.
    label: str
    #: The task of a child.
    task: str
    #: An item: the step that works on it. The plan returns `{item}s`, their number, and
    #: `{item}s_key`, the key of a file with one item a line.
    item: str


def map_definition(
    names: MapNames,
    *,
    comment: str,
    function_arn: str,
    partition: str,
    bucket: str,
    defaults: dict[str, Any],
    max_concurrency: int,
    final_errors: Sequence[str],
    passing_errors: Sequence[str] = (),
    worker: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the definition.

    Args:
        names: The names of states and values.
        comment: What the state machine does.
        function_arn: The function that runs all steps.
        partition: The AWS partition.
        bucket: The bucket of the plan.
        defaults: The settings of a job that an execution's input does not give.
        max_concurrency: The highest number of items at a time.
        final_errors: The classes of errors that a second attempt would find again.
        passing_errors: The classes of errors that pass, as throttles do.
        worker: Further values for the step that works on an item.
    """
    invoke = f"arn:{partition}:states:::lambda:invoke"
    retries = _retries(final_errors, passing_errors)
    label, item = names.label, names.item

    def step(payload: dict[str, Any], *, seconds: int) -> dict[str, Any]:
        return {
            "Type": "Task",
            "Resource": invoke,
            "Parameters": {"FunctionName": function_arn, "Payload": payload},
            "OutputPath": "$.Payload",
            "TimeoutSeconds": seconds,
            "Retry": retries,
        }

    plan = {"step": "plan", "defaults": defaults, "job.$": "$"}
    work = {"step": item, "folder.$": "$.folder", f"{item}.$": f"$.{item}", **(worker or {})}
    finish = {"step": "finish", "folder.$": "$.folder"}
    return {
        "Comment": comment,
        "StartAt": "Plan",
        "States": {
            "Plan": {**step(plan, seconds=TIMEOUT_SECONDS), "Next": f"Has{label}"},
            f"Has{label}": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": f"$.{item}s", "NumericGreaterThan": 0, "Next": label},
                ],
                "Default": "Finish",
            },
            label: {
                "Type": "Map",
                "Label": label,
                "ItemReader": {
                    "Resource": f"arn:{partition}:states:::s3:getObject",
                    "ReaderConfig": {"InputType": "JSONL"},
                    "Parameters": {"Bucket": bucket, "Key.$": f"$.{item}s_key"},
                },
                "ItemSelector": {"folder.$": "$.folder", f"{item}.$": "$$.Map.Item.Value"},
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
                    "StartAt": names.task,
                    "States": {names.task: {**step(work, seconds=_CHILD_SECONDS), "End": True}},
                },
                "MaxConcurrency": max_concurrency,
                # An item that fails must not stop the others: what they have done is kept, and
                # Finish fails with the names of the missing ones. The next run does only those.
                "ToleratedFailurePercentage": 100,
                # In S3, because the outputs of many items exceed the 256 KB of a state's output.
                "ResultWriter": {
                    "Resource": f"arn:{partition}:states:::s3:putObject",
                    "Parameters": {"Bucket": bucket, "Prefix.$": "$.results_prefix"},
                },
                "ResultPath": "$.results",
                "Next": "Finish",
            },
            "Finish": {**step(finish, seconds=TIMEOUT_SECONDS), "End": True},
        },
    }


def _retries(final: Sequence[str], passing: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rules for further attempts, the first that fits counts."""
    return [
        {"ErrorEquals": list(final), "MaxAttempts": 0},
        {
            # Throttles are normal while the function scales up, or callers need the concurrency.
            "ErrorEquals": [*_SERVICE_ERRORS, *passing],
            "IntervalSeconds": 2,
            "BackoffRate": 2,
            "MaxAttempts": 6,
            "MaxDelaySeconds": 60,
            "JitterStrategy": "FULL",
        },
        {
            # A crash of the execution environment, or S3 for longer than the library tries.
            "ErrorEquals": ["States.TaskFailed"],
            "IntervalSeconds": 5,
            "BackoffRate": 2,
            "MaxAttempts": 2,
            "JitterStrategy": "FULL",
        },
    ]
