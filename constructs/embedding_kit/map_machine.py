"""The state machine of a `map_definition`, with its log and its permissions.

https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
"""

from typing import Any, NamedTuple

from aws_cdk import Aws, Names, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_untraced
from embedding_kit.hosting import Hosting, make_log_group
from embedding_kit.s3_permissions import WRITE_KEY, allow, objects, shown
from embedding_kit.settings.locations import Location

__all__ = ["MapFiles", "acknowledge_wildcards", "make_machine", "map_findings"]


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
