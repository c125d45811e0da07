"""A function, and the state machine that runs it over the items of a plan.

https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Aws, Duration, Names, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as stepfunctions
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_untraced, acknowledge_wildcard
from embedding_kit.function import function_role, logging_variables
from embedding_kit.hosting import Hosting, make_log_group, vpc_properties
from embedding_kit.package import image_code
from embedding_kit.permissions import WRITE_KEY, allow, allow_keys, objects
from embedding_kit.programs import contract
from embedding_kit.settings import ModelSettings
from embedding_kit.settings.locations import Location

#: Lambda's limit, which the plan of a large input needs.
_TIMEOUT_SECONDS = 900
#: An EXPRESS execution ends after 5 minutes, attempts and pauses included. A little less, so that
#: its error is that of the task.
_CHILD_SECONDS = 280
#: Actions of S3 that write a file of results in parts.
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


#: Without this flag, which an app may not set, the CDK leaves the writer of results out.
_RENDERS_RESULT_WRITER = "@aws-cdk/aws-stepfunctions:useDistributedMapResultWriterV2"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProgram:
    """A program of the image's target `batch`, which has the steps of a job.

    Attributes:
        job: The job's name in the image's `contract.json`.
        label: The state of the map, and the label of its child executions in their ARNs.
        task: The task of a child.
        comment: What the state machine does.
    """

    job: str
    label: str
    task: str
    comment: str


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
        model: ModelSettings,
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
        self.node.set_context(_RENDERS_RESULT_WRITER, True)
        self.name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        self.namespace = f"EmbeddingKit/{self.name}"
        self.log_group = make_log_group(self, "Logs")
        self._program, self._map = program, contract().jobs[program.job]
        self._location = location
        self.keys = hosting.existing_keys if keys is None else keys
        role = function_role(self, self.log_group)
        self._grant(role)
        self.function = self._make_function(
            role,
            model=model,
            description=f"{title} by {model.name}",
            memory_mb=memory_mb,
            reserved_concurrency=reserved_concurrency,
            hosting=hosting,
        )
        self.state_machine = self._make_machine(
            self._definition(defaults, max_concurrency, worker or {}), hosting
        )

    def _grant(self, role: iam.IRole) -> None:
        """Let the function's role read and write what the steps need."""
        raise NotImplementedError

    def _make_function(
        self,
        role: iam.IRole,
        *,
        model: ModelSettings,
        description: str,
        memory_mb: int,
        reserved_concurrency: int | None,
        hosting: Hosting,
    ) -> lambda_.DockerImageFunction:
        """Create a function of the image's target `batch`."""
        command = [contract().handlers[self._program.job]]
        function = lambda_.DockerImageFunction(
            self,
            "Function",
            code=image_code(model, command=command, target="batch"),
            architecture=lambda_.Architecture.ARM_64,
            memory_size=memory_mb,
            timeout=Duration.seconds(_TIMEOUT_SECONDS),
            reserved_concurrent_executions=reserved_concurrency,
            environment=logging_variables(self.name),
            environment_encryption=hosting.environment_encryption,
            role=role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=hosting.tracing,
            **vpc_properties(self, hosting, role, description=description, calls_aws=True),
            **{"description": description, **hosting.function_props},
        )
        reason = "Step Functions or SQS tries again."
        acknowledge(function, "Serverless-LambdaDLQ", reason=reason)
        acknowledge_untraced(function, hosting.tracing, "Serverless-LambdaTracing")
        return function

    def _definition(
        self, defaults: Mapping[str, Any], max_concurrency: int, worker: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the definition: Plan, the map of its items if there are any, and Finish.

        `defaults` are the settings of a job that an execution's input does not give.
        """
        label, item = self._program.label, self._map.item
        jobs = s3.Bucket.from_bucket_name(self, "Jobs", self._location.bucket)
        folder = stepfunctions.JsonPath.string_at("$.folder")
        job = stepfunctions.JsonPath.object_at("$")
        plan = self._step("Plan", {"step": "plan", "defaults": defaults, "job": job})
        finish = self._step("Finish", {"step": "finish", "folder": folder})
        items = stepfunctions.DistributedMap(
            self,
            label,
            label=label,
            map_execution_type=stepfunctions.StateMachineType.EXPRESS,
            item_reader=stepfunctions.S3JsonLItemReader(
                bucket=jobs, key=stepfunctions.JsonPath.string_at(f"$.{item}s_key")
            ),
            item_selector={
                "folder": folder,
                item: stepfunctions.JsonPath.object_at("$$.Map.Item.Value"),
            },
            max_concurrency=max_concurrency,
            # An item that fails must not stop the others: what they have done is kept, and Finish
            # fails with the names of the missing ones. The next run does only those.
            tolerated_failure_percentage=100,
            # In S3, because the outputs of many items exceed a state's output of 256 KB.
            result_writer_v2=stepfunctions.ResultWriterV2(
                bucket=jobs, prefix=stepfunctions.JsonPath.string_at("$.results_prefix")
            ),
            result_path="$.results",
        )
        value = stepfunctions.JsonPath.object_at(f"$.{item}")
        work = {"step": item, "folder": folder, item: value, **worker}
        items.item_processor(self._step(self._program.task, work, seconds=_CHILD_SECONDS))
        has_items = stepfunctions.Choice(self, f"Has{label}").when(
            stepfunctions.Condition.number_greater_than(f"$.{item}s", 0), items.next(finish)
        )
        plan.next(has_items.otherwise(finish))
        graph = stepfunctions.StateGraph(plan, self._program.comment)
        return {"Comment": self._program.comment, **graph.to_graph_json()}

    def _step(
        self, id: str, payload: Mapping[str, Any], *, seconds: int = _TIMEOUT_SECONDS
    ) -> tasks.LambdaInvoke:
        """Return a task of the function, with its rules for further attempts."""
        step = tasks.LambdaInvoke(
            self,
            id,
            lambda_function=self.function,
            payload=stepfunctions.TaskInput.from_object(payload),
            output_path="$.Payload",
            task_timeout=stepfunctions.Timeout.duration(Duration.seconds(seconds)),
            retry_on_service_exceptions=False,
        )
        errors = contract().errors
        # The first rule that fits counts.
        step.add_retry(errors=[*errors["final"]], max_attempts=0)
        # Throttles are normal while the function scales up, or callers need the concurrency.
        step.add_retry(
            errors=[*_SERVICE_ERRORS, *errors["passing"]],
            interval=Duration.seconds(2),
            backoff_rate=2,
            max_attempts=6,
            max_delay=Duration.seconds(60),
            jitter_strategy=stepfunctions.JitterType.FULL,
        )
        # A crash of the execution environment, or S3 for longer than the library tries.
        step.add_retry(
            errors=["States.TaskFailed"],
            interval=Duration.seconds(5),
            backoff_rate=2,
            max_attempts=2,
            jitter_strategy=stepfunctions.JitterType.FULL,
        )
        return step

    def _make_machine(
        self, definition: Mapping[str, Any], hosting: Hosting
    ) -> stepfunctions.StateMachine:
        machine = stepfunctions.StateMachine(
            self,
            "StateMachine",
            # As text: of the states themselves, the CDK would grant the machine all objects of the
            # bucket and all versions of the function.
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
        plan = objects(self._location, f"*/{self._map.plan}")
        results = objects(self._location, f"*/{self._map.results}/*")
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
