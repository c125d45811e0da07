"""What the function and the state machine of a batch may do in S3, KMS and Step Functions.

Each may read or write one folder. https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
"""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from embedding_kit.batch_definition import MAP_LABEL, RESULTS_FOLDER, SHARDS_FILE
from embedding_kit.settings import BatchSettings
from embedding_kit.settings.locations import Location

__all__ = ["acknowledged", "grant_machine_files", "grant_map_runs", "grant_worker_files"]

#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
_READ_KEY = ("kms:Decrypt",)
_WRITE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")


def grant_worker_files(role: iam.IRole, settings: BatchSettings) -> None:
    """Let the function read the input, and read and write the output."""
    read, write = settings.source, settings.destination
    _allow(role, "ReadInput", ["s3:GetObject"], [_objects(read)])
    _allow(role, "WriteOutput", ["s3:GetObject", "s3:PutObject"], [_objects(write)])
    for sid, location in (("ListInput", read), ("ListOutput", write)):
        role.add_to_principal_policy(
            iam.PolicyStatement(
                sid=sid,
                actions=["s3:ListBucket"],
                resources=[_bucket(location)],
                conditions={"StringLike": {"s3:prefix": f"{location.prefix}*"}}
                if location.prefix
                else None,
            )
        )
    if settings.input_key:
        _allow(role, "DecryptInput", _READ_KEY, [settings.input_key])
    if settings.output_key:
        _allow(role, "EncryptOutput", _WRITE_KEY, [settings.output_key])


def grant_machine_files(machine: stepfunctions.StateMachine, settings: BatchSettings) -> None:
    """Let the state machine read the plans of jobs, and write what became of their shards."""
    write, role = settings.destination, machine.role
    _allow(role, "ReadPlan", ["s3:GetObject"], [_objects(write, f"*/{SHARDS_FILE}")])
    _allow(
        role,
        "WriteResults",
        [
            "s3:AbortMultipartUpload",
            "s3:GetObject",
            "s3:ListMultipartUploadParts",
            "s3:PutObject",
        ],
        [_objects(write, f"*/{RESULTS_FOLDER}/*")],
    )
    if settings.output_key:
        _allow(role, "EncryptResults", _WRITE_KEY, [settings.output_key])


def grant_map_runs(scope: Construct, machine: stepfunctions.StateMachine) -> None:
    """Let the state machine start and stop the child executions of its own map."""
    children = (
        f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:execution:"
        f"{machine.state_machine_name}/{MAP_LABEL}:*"
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


def acknowledged(machine: stepfunctions.StateMachine, settings: BatchSettings) -> dict[str, str]:
    """Return cdk-nag's findings about these grants, each with the reason for it."""
    name = Stack.of(machine).resolve(machine.node.default_child.logical_id)  # type: ignore[union-attr]
    read, write = settings.source, settings.destination
    children = "arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:"
    reasons = {
        _shown(read): "A job reads all files of the input's folder.",
        _shown(write): "A job writes into a folder of its own, whose name is computed.",
        _shown(write, f"*/{SHARDS_FILE}"): "The plan is in the job's folder.",
        _shown(write, f"*/{RESULTS_FOLDER}/*"): "Step Functions names the files by the map run.",
        f"{children}<{name}.Name>/{MAP_LABEL}:*": "Child executions have generated names.",
        "*": "X-Ray's actions and those of log deliveries are granted on all resources or on none.",
    }
    return {f"AwsSolutions-IAM5[Resource::{resource}]": reasons[resource] for resource in reasons}


def _allow(role: iam.IRole, sid: str, actions: list[str] | tuple[str, ...], on: list[str]) -> None:
    role.add_to_principal_policy(iam.PolicyStatement(sid=sid, actions=list(actions), resources=on))


def _bucket(location: Location) -> str:
    return f"arn:{Aws.PARTITION}:s3:::{location.bucket}"


def _shown(location: Location, name: str = "*") -> str:
    """Return the ARN of objects as cdk-nag writes it."""
    return _objects(location, name).replace(Aws.PARTITION, "<AWS::Partition>")


def _objects(location: Location, name: str = "*") -> str:
    return f"{_bucket(location)}/{location.prefix}{name}"
