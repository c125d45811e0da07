"""A function, and the state machine that runs it over the items of a plan: Plan, Map, Finish.

https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Aws, Duration, Names, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_untraced, acknowledge_wildcard
from embedding_kit.function import function_role
from embedding_kit.hosting import Hosting, make_log_group, vpc_properties
from embedding_kit.package import image_code
from embedding_kit.permissions import WRITE_KEY, allow, allow_keys, objects
from embedding_kit.settings import Model
from embedding_kit.settings.locations import Location

#: Lambda's limit, which the plan of a large input needs.
_TIMEOUT_SECONDS = 900
#: An EXPRESS execution ends after 5 minutes, attempts and pauses included. A little less, so that
#: its error is that of the task.
_CHILD_SECONDS = 280
#: Of S3, to write a file of results in parts.
_UPLOAD_ACTIONS = (
    "s3:AbortMultipartUpload",
    "s3:GetObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)
#: Lambda's own failures and throttles, as the service names them.
_SERVICE_ERRORS = (
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProgram:
    """A program of the image's target `batch`, which has the steps of a job.

    The constructs import no code of the image, so they repeat its names.

    Attributes:
        handler: The handler.
        label: The state of the map, and the label of its child executions in their ARNs.
        task: The task of a child.
        item: An item: the step that works on it. The plan returns `{item}s`, their number, and
            `{item}s_key`, the key of a file with one item a line.
        plan: Below a job's folder, the path of the plan, with wildcards.
        results: Below a job's folder, the path of the folder with the records of the items.
        comment: What the state machine does.
        final_errors: The classes of errors that a second attempt would find again: those of the
            input, the settings, the model or the index.
        passing_errors: The classes of errors that pass, as throttles do.
    """

    handler: str
    label: str
    task: str
    item: str
    plan: str
    results: str
    comment: str
    final_errors: Sequence[str]
    passing_errors: Sequence[str] = ()

    def definition(
        self,
        *,
        function_arn: str,
        bucket: str,
        defaults: Mapping[str, Any],
        max_concurrency: int,
        worker: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return the definition of the state machine.

        `defaults` are the settings of a job that an execution's input does not give.
        """
        label, item = self.label, self.item

        def step(payload: dict[str, Any], *, seconds: int) -> dict[str, Any]:
            return {
                "Type": "Task",
                "Resource": f"arn:{Aws.PARTITION}:states:::lambda:invoke",
                "Parameters": {"FunctionName": function_arn, "Payload": payload},
                "OutputPath": "$.Payload",
                "TimeoutSeconds": seconds,
                "Retry": _retries(self.final_errors, self.passing_errors),
            }

        plan = {"step": "plan", "defaults": defaults, "job.$": "$"}
        work = {"step": item, "folder.$": "$.folder", f"{item}.$": f"$.{item}", **worker}
        finish = {"step": "finish", "folder.$": "$.folder"}
        return {
            "Comment": self.comment,
            "StartAt": "Plan",
            "States": {
                "Plan": {**step(plan, seconds=_TIMEOUT_SECONDS), "Next": f"Has{label}"},
                f"Has{label}": {
                    "Type": "Choice",
                    "Choices": [{"Variable": f"$.{item}s", "NumericGreaterThan": 0, "Next": label}],
                    "Default": "Finish",
                },
                label: {
                    "Type": "Map",
                    "Label": label,
                    "ItemReader": {
                        "Resource": f"arn:{Aws.PARTITION}:states:::s3:getObject",
                        "ReaderConfig": {"InputType": "JSONL"},
                        "Parameters": {"Bucket": bucket, "Key.$": f"$.{item}s_key"},
                    },
                    "ItemSelector": {"folder.$": "$.folder", f"{item}.$": "$$.Map.Item.Value"},
                    "ItemProcessor": {
                        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
                        "StartAt": self.task,
                        "States": {self.task: {**step(work, seconds=_CHILD_SECONDS), "End": True}},
                    },
                    "MaxConcurrency": max_concurrency,
                    # An item that fails must not stop the others: what they have done is kept, and
                    # Finish fails with the names of the missing ones. The next run does only
                    # those.
                    "ToleratedFailurePercentage": 100,
                    # In S3, because the outputs of many items exceed a state's output of 256 KB.
                    "ResultWriter": {
                        "Resource": f"arn:{Aws.PARTITION}:states:::s3:putObject",
                        "Parameters": {"Bucket": bucket, "Prefix.$": "$.results_prefix"},
                    },
                    "ResultPath": "$.results",
                    "Next": "Finish",
                },
                "Finish": {**step(finish, seconds=_TIMEOUT_SECONDS), "End": True},
            },
        }


def job_function(
    scope: Construct,
    *,
    model: Model,
    handler: str,
    description: str,
    memory_mb: int,
    name: str,
    role: iam.IRole,
    log_group: logs.ILogGroup,
    hosting: Hosting,
    reserved_concurrency: int | None = None,
) -> lambda_.DockerImageFunction:
    """Create a function of the image's target `batch`; see `DistributedJobs`."""
    function = lambda_.DockerImageFunction(
        scope,
        "Function",
        code=image_code(model, command=[handler], target="batch"),
        architecture=lambda_.Architecture.ARM_64,
        memory_size=memory_mb,
        timeout=Duration.seconds(_TIMEOUT_SECONDS),
        reserved_concurrent_executions=reserved_concurrency,
        environment={
            "EMBEDDING_ENVIRONMENT": name,
            "EMBEDDING_METRICS_NAMESPACE": f"EmbeddingKit/{name}",
        },
        environment_encryption=hosting.environment_encryption,
        role=role,
        log_group=log_group,
        logging_format=lambda_.LoggingFormat.JSON,
        tracing=hosting.tracing,
        **vpc_properties(scope, hosting, role, description=description, calls_aws=True),
        **{"description": description, **hosting.function_props},
    )
    reason = "Step Functions or the next day's run tries again."
    acknowledge(function, "Serverless-LambdaDLQ", reason=reason)
    acknowledge_untraced(function, hosting.tracing, "Serverless-LambdaTracing")
    return function


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


class DistributedJobs(Construct):
    """A function, and the state machine that runs it.

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
        program: MapProgram,
        model: Model,
        title: str,
        memory_mb: int,
        location: Location,
        defaults: Mapping[str, Any],
        max_concurrency: int,
        name: str | None,
        hosting: Hosting,
        keys: Sequence[str] | None = None,
        reserved_concurrency: int | None = None,
        worker: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the function and the state machine.

        `location` has the folders of all jobs, and `worker` further values for the step that works
        on an item.
        """
        super().__init__(scope, id)
        self.name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        self.namespace = f"EmbeddingKit/{self.name}"
        self.log_group = make_log_group(self, "Logs")
        self._program, self._location = program, location
        self.keys = hosting.existing_keys if keys is None else keys
        role = function_role(self, self.log_group)
        self._grant(role)
        self.function = job_function(
            self,
            model=model,
            handler=program.handler,
            description=f"{title} by {model.name}",
            memory_mb=memory_mb,
            name=self.name,
            role=role,
            log_group=self.log_group,
            hosting=hosting,
            reserved_concurrency=reserved_concurrency,
        )
        definition = program.definition(
            function_arn=self.function.function_arn,
            bucket=location.bucket,
            defaults=defaults,
            max_concurrency=max_concurrency,
            worker=worker or {},
        )
        self.state_machine = self._make_machine(
            f"{title.split(maxsplit=1)[0]} of {self.name}", definition, hosting
        )

    def _grant(self, role: iam.IRole) -> None:
        """Let the function's role read and write what the steps need."""
        raise NotImplementedError

    def _make_machine(
        self, comment: str, definition: Mapping[str, Any], hosting: Hosting
    ) -> stepfunctions.StateMachine:
        machine = stepfunctions.StateMachine(
            self,
            "StateMachine",
            comment=comment,
            definition_body=stepfunctions.DefinitionBody.from_string(
                Stack.of(self).to_json_string(definition)
            ),
            logs=stepfunctions.LogOptions(
                # Step Functions may write to groups of this name without a change of the account's
                # one policy for log deliveries, which has a size limit.
                destination=make_log_group(
                    self,
                    "StateMachineLogs",
                    name="/aws/vendedlogs/states/"
                    + Names.unique_resource_name(self, separator="-", max_length=200),
                ),
                level=stepfunctions.LogLevel.ALL,
                include_execution_data=False,
            ),
            tracing_enabled=hosting.is_traced,
        )
        allow(machine.role, ["lambda:InvokeFunction"], [self.function.function_arn])
        self._grant_files(machine.role)
        self._grant_map_runs(machine)
        acknowledge_wildcard(
            self,
            "*",
            reason="X-Ray's actions and those of log deliveries are granted on all resources or on "
            "none.",
        )
        acknowledge_untraced(
            machine, hosting.tracing, "AwsSolutions-SF2", "Serverless-StepFunctionStateMachineXray"
        )
        return machine

    def _grant_files(self, role: iam.IRole) -> None:
        """Let the state machine read the plans of jobs, and write what became of their items."""
        plan = objects(self._location, f"*/{self._program.plan}")
        results = objects(self._location, f"*/{self._program.results}/*")
        allow(role, ["s3:GetObject"], [plan], sid="ReadPlan")
        allow(role, _UPLOAD_ACTIONS, [results], sid="WriteResults")
        allow_keys(role, "EncryptResults", WRITE_KEY, self.keys, self._location)
        acknowledge_wildcard(self, plan, reason="The plan is in the job's folder.")
        reason = "Step Functions names the files by the map run."
        acknowledge_wildcard(self, results, reason=reason)

    def _grant_map_runs(self, machine: stepfunctions.StateMachine) -> None:
        """Let the state machine start and stop the child executions of its map."""
        children = (
            f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution:"
            f"{machine.state_machine_name}/{self._program.label}:*"
        )
        # A separate policy: the state machine depends on its role's, which must not name it.
        iam.Policy(
            self,
            "MapRuns",
            statements=[
                iam.PolicyStatement(
                    actions=["states:StartExecution"], resources=[machine.state_machine_arn]
                ),
                iam.PolicyStatement(
                    actions=["states:DescribeExecution", "states:StopExecution"],
                    resources=[children],
                ),
            ],
        ).attach_to_role(machine.role)
        reason = "Child executions have generated names."
        acknowledge_wildcard(self, children, reason=reason)
