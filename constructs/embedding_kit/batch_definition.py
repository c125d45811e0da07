"""The state machine of a batch in Amazon States Language, as plain values.

    Plan → HasShards → Shards (Distributed Map: Embed) → Finish

https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
"""

from typing import Any

__all__ = ["MAP_LABEL", "RESULTS_FOLDER", "SHARDS_FILE", "TIMEOUT_SECONDS", "batch_definition"]

#: The label of the map's child executions in their ARNs.
MAP_LABEL = "Shards"
#: The plan and the records of the shards, in the job's folder.
SHARDS_FILE = "_job/shards.jsonl"
RESULTS_FOLDER = "_job/results"
#: Lambda's limit, which the plan of a large input needs.
TIMEOUT_SECONDS = 900
#: An EXPRESS execution ends after 5 minutes, attempts and pauses included. A little less, so that
#: its error is that of the task.
_CHILD_SECONDS = 280
#: Lambda's own failures and throttles, as the service names them.
_SERVICE_ERRORS = [
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
]
#: A second attempt would find the same: errors of the input, the settings or the model.
_FINAL_ERRORS = [
    "BatchError",
    "ChangedInputError",
    "ChangedModelError",
    "IncompleteJobError",
    "RejectedRowsError",
]


def batch_definition(
    *,
    function_arn: str,
    partition: str,
    bucket: str,
    defaults: dict[str, Any],
    max_concurrency: int,
) -> dict[str, Any]:
    """Return the definition.

    Args:
        function_arn: The function that runs all steps.
        partition: The AWS partition.
        bucket: The bucket of the output.
        defaults: The settings of a job that an execution's input does not give.
        max_concurrency: The highest number of shards at a time.
    """
    invoke = f"arn:{partition}:states:::lambda:invoke"

    def step(payload: dict[str, Any], *, seconds: int) -> dict[str, Any]:
        return {
            "Type": "Task",
            "Resource": invoke,
            "Parameters": {"FunctionName": function_arn, "Payload": payload},
            "OutputPath": "$.Payload",
            "TimeoutSeconds": seconds,
            "Retry": _retries(),
        }

    plan = {"step": "plan", "defaults": defaults, "job.$": "$"}
    shard = {"step": "shard", "folder.$": "$.folder", "shard.$": "$.shard"}
    finish = {"step": "finish", "folder.$": "$.folder"}
    return {
        "Comment": "Embeds the files of a folder in shards",
        "StartAt": "Plan",
        "States": {
            "Plan": {**step(plan, seconds=TIMEOUT_SECONDS), "Next": "HasShards"},
            "HasShards": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.shards", "NumericGreaterThan": 0, "Next": MAP_LABEL},
                ],
                "Default": "Finish",
            },
            MAP_LABEL: {
                "Type": "Map",
                "Label": MAP_LABEL,
                "ItemReader": {
                    "Resource": f"arn:{partition}:states:::s3:getObject",
                    "ReaderConfig": {"InputType": "JSONL"},
                    "Parameters": {"Bucket": bucket, "Key.$": "$.shards_key"},
                },
                "ItemSelector": {"folder.$": "$.folder", "shard.$": "$$.Map.Item.Value"},
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
                    "StartAt": "Embed",
                    "States": {"Embed": {**step(shard, seconds=_CHILD_SECONDS), "End": True}},
                },
                "MaxConcurrency": max_concurrency,
                # A shard that fails must not stop the others: what they have embedded is kept, and
                # Finish fails with the names of the missing ones. The next run embeds only those.
                "ToleratedFailurePercentage": 100,
                # In S3, because the outputs of many shards exceed the 256 KB of a state's output.
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


def _retries() -> list[dict[str, Any]]:
    """Return the rules for further attempts, the first that fits counts."""
    return [
        {"ErrorEquals": _FINAL_ERRORS, "MaxAttempts": 0},
        {
            # Throttles are normal while the function scales up, or callers need the concurrency.
            "ErrorEquals": _SERVICE_ERRORS,
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
