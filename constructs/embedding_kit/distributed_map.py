"""A state machine that runs a function over the items of a plan: Plan, Distributed Map, Finish.

https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from aws_cdk import Aws, Duration, Names, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_untraced
from embedding_kit.hosting import Hosting, make_log_group, vpc_properties
from embedding_kit.image import image_code
from embedding_kit.s3_permissions import WRITE_KEY, allow, objects, shown
from embedding_kit.settings import Model
from embedding_kit.settings.locations import Location

__all__ = [
    "MapFiles",
    "MapNames",
    "acknowledge_wildcards",
    "make_function",
    "make_machine",
    "map_definition",
    "map_findings",
]

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


def make_function(
    scope: Construct,
    *,
    description: str,
    model: Model,
    handler: str,
    memory_mb: int,
    environment: dict[str, str],
    role: iam.IRole,
    log_group: logs.ILogGroup,
    hosting: Hosting,
    reserved_concurrency: int | None = None,
) -> lambda_.DockerImageFunction:
    """Create a function from the image's target `batch`.

    Args:
        scope: The parent, which has one of them.
        description: What the function does.
        model: The model in the image.
        handler: The handler in the image.
        memory_mb: The memory in MB.
        environment: The environment variables.
        role: The execution role.
        log_group: The log group.
        hosting: The VPC, the key and the tracing.
        reserved_concurrency: The reserved concurrency; None reserves none.
    """
    function = lambda_.DockerImageFunction(
        scope,
        "Function",
        description=description,
        code=image_code(model, command=[handler], target="batch"),
        architecture=lambda_.Architecture.ARM_64,
        memory_size=memory_mb,
        timeout=Duration.seconds(TIMEOUT_SECONDS),
        reserved_concurrent_executions=reserved_concurrency,
        environment=environment,
        environment_encryption=hosting.environment_encryption,
        role=role,
        log_group=log_group,
        logging_format=lambda_.LoggingFormat.JSON,
        tracing=hosting.tracing,
        **vpc_properties(scope, hosting, role, description=description, calls_aws=True),
    )
    acknowledge(
        function,
        {"Serverless-LambdaDLQ": "Step Functions waits for the answer and tries again."},
    )
    acknowledge_untraced(function, hosting.tracing, "Serverless-LambdaTracing")
    return function


class MapFiles(NamedTuple):
    """The files of a map's jobs in S3."""

    #: The folder of all jobs.
    location: Location
    #: Below it, the path of a job's plan, with wildcards.
    plan: str
    #: The path of the folder with the records of the items.
    results: str
    #: The KMS key of the bucket.
    key: str | None


def make_machine(
    scope: Construct,
    *,
    comment: str,
    definition: dict[str, Any],
    function: lambda_.IFunction,
    files: MapFiles,
    label: str,
    hosting: Hosting,
) -> stepfunctions.StateMachine:
    """Create a state machine that runs a function over the items of a plan.

    Args:
        scope: The parent, which has one of them.
        comment: What the state machine does.
        definition: What `map_definition` returns.
        function: The function that runs all steps.
        files: The files that the state machine reads and writes itself.
        label: The map's label.
        hosting: Whether X-Ray traces executions.
    """
    machine = stepfunctions.StateMachine(
        scope,
        "StateMachine",
        comment=comment,
        definition_body=stepfunctions.DefinitionBody.from_string(
            Stack.of(scope).to_json_string(definition)
        ),
        logs=stepfunctions.LogOptions(
            # Step Functions may write to groups of this name without a change of the account's
            # one policy for log deliveries, which has a size limit.
            destination=make_log_group(
                scope,
                "StateMachineLogs",
                name="/aws/vendedlogs/states/"
                + Names.unique_resource_name(scope, separator="-", max_length=200),
            ),
            level=stepfunctions.LogLevel.ALL,
            include_execution_data=False,
        ),
        tracing_enabled=hosting.is_traced,
    )
    machine.add_to_role_policy(
        iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn])
    )
    _grant_files(machine.role, files)
    _grant_map_runs(scope, machine, label)
    acknowledge_untraced(
        machine, hosting.tracing, "AwsSolutions-SF2", "Serverless-StepFunctionStateMachineXray"
    )
    return machine


def map_findings(
    machine: stepfunctions.StateMachine, files: MapFiles, *, label: str
) -> dict[str, str]:
    """Return cdk-nag's findings about the grants of `make_machine`: resource and reason."""
    name = Stack.of(machine).resolve(machine.node.default_child.logical_id)  # type: ignore[union-attr]
    children = "arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:"
    return {
        shown(files.location, f"*/{files.plan}"): "The plan is in the job's folder.",
        shown(files.location, f"*/{files.results}/*"): "Step Functions names the files by the map "
        "run.",
        f"{children}<{name}.Name>/{label}:*": "Child executions have generated names.",
        "*": "X-Ray's actions and those of log deliveries are granted on all resources or on none.",
    }


def acknowledge_wildcards(scope: Construct, findings: dict[str, str]) -> None:
    """Acknowledge wildcards in the resources of a construct's policies, by their reasons."""
    acknowledge(
        scope,
        {f"AwsSolutions-IAM5[Resource::{name}]": reason for name, reason in findings.items()},
    )


def _grant_files(role: iam.IRole, files: MapFiles) -> None:
    """Let the state machine read the plans of jobs, and write what became of their items."""
    plan = objects(files.location, f"*/{files.plan}")
    allow(role, "ReadPlan", ["s3:GetObject"], [plan])
    allow(
        role,
        "WriteResults",
        [
            "s3:AbortMultipartUpload",
            "s3:GetObject",
            "s3:ListMultipartUploadParts",
            "s3:PutObject",
        ],
        [objects(files.location, f"*/{files.results}/*")],
    )
    if files.key:
        allow(role, "EncryptResults", WRITE_KEY, [files.key])


def _grant_map_runs(scope: Construct, machine: stepfunctions.StateMachine, label: str) -> None:
    """Let the state machine start and stop the child executions of its own map."""
    children = (
        f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution:"
        f"{machine.state_machine_name}/{label}:*"
    )
    # A policy of its own: the state machine depends on its role's, which must not name it.
    iam.Policy(
        scope,
        "MapRuns",
        statements=[
            iam.PolicyStatement(
                actions=["states:StartExecution"], resources=[machine.state_machine_arn]
            ),
            iam.PolicyStatement(
                actions=["states:DescribeExecution", "states:StopExecution"], resources=[children]
            ),
        ],
    ).attach_to_role(machine.role)
