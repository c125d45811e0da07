"""A batch job in the emulated AWS: started and followed by `embed batch`, and its result checked.

The caller is a role with the permissions that docs/batch.md lists, and no others.
"""

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet

from stacks.names import batch_stack_name
from tools.rehearsal.deploy.callers import make_role
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.emulator import Credentials, Emulator
from tools.rehearsal.image.report import Report

__all__ = [
    "BATCH_SETTINGS",
    "check_job",
    "make_caller",
    "make_documents",
    "remove_caller",
]

_BUCKETS = ("rehearsal-documents", "rehearsal-vectors")
_SOURCE, _DESTINATION = (f"s3://{bucket}/batch/" for bucket in _BUCKETS)
#: The settings of the variant.
BATCH_SETTINGS = {"input": _SOURCE, "output": _DESTINATION, "max_concurrency": 2}
_CALLER = "rehearsal-batch-caller"
#: Rows of two files; the last row of the first has no text.
_ROWS = 40
_BY = "`embed batch` as a role with the documented permissions; Step Functions, S3"


def make_documents(aws: Emulator) -> None:
    """Create the buckets, and put texts into the first, in two formats."""
    s3 = aws.client("s3")
    for bucket in _BUCKETS:
        s3.create_bucket(Bucket=bucket)
    half = _ROWS // 2
    lines = [json.dumps({"key": f"a{n}", "body": f"line number {n}"}) for n in range(half - 1)]
    cells = [f'b{n},"cell number {n}"' for n in range(half)]
    for name, content in (
        ("a.jsonl", [*lines, json.dumps({"key": "none", "body": ""})]),
        ("b.csv", ["key,body", *cells]),
    ):
        body = "\n".join(content).encode()
        s3.put_object(Bucket=_BUCKETS[0], Key=f"batch/{name}", Body=body)


def check_job(report: Report, cdk: Cdk) -> None:
    """Start a job with the client, follow it, and check the vectors; then resume it."""
    aws, machine = cdk.aws, _machine(cdk)
    caller = make_caller(aws, machine, bucket=_BUCKETS[1])
    with report.step("embed batch: start, follow and resume a job"):
        settings = ["--text", "body", "--id", "key", "--max-rejected-percent", "5"]
        name = _embed(aws, caller, machine, "start", _SOURCE, _DESTINATION, *settings).strip()
        first = _followed(aws, caller, machine, name)
        again = _embed(aws, caller, machine, "resume", name).strip()
        second = _followed(aws, caller, machine, again)
    progress = first.get("progress") or {}
    result = first.get("result") or {}
    counts = [result.get("rows"), result.get("rejected")]
    report.check(
        "batch job",
        f"a job that `embed batch start` started embeds {_ROWS - 1} rows and rejects one",
        first["state"] == "SUCCEEDED" and counts == [_ROWS - 1, 1],
        by=_BY,
        found=f"{first['state']}, {counts} {first['problem'] or ''}",
    )
    report.check(
        "batch job",
        "`embed batch status` adds up the same rows, and a cost",
        [progress.get("rows"), progress.get("rejected")] == counts and progress["cost"] > 0,
        by=_BY,
        found=progress or first["unknown"],
    )
    ids = _ids(aws, str(result.get("folder")))
    wanted = [f"a{n}" for n in range(_ROWS // 2 - 1)] + [f"b{n}" for n in range(_ROWS // 2)]
    report.check(
        "batch job",
        "each row is in the output once",
        sorted(ids) == sorted(wanted),
        by="Parquet in S3",
        found=f"{len(ids)} ids",
    )
    report.check(
        "batch job",
        "resumed, it embeds no shard again",
        second["result"] == first["result"] and second["progress"]["cost"] == progress["cost"],
        by=_BY,
        found=f"{second['state']}, {second['progress']}",
    )


def _machine(cdk: Cdk) -> str:
    stacks = cdk.aws.client("cloudformation").describe_stacks(
        StackName=batch_stack_name(cdk.checkout.environment)
    )["Stacks"]
    outputs = {item["OutputKey"]: item["OutputValue"] for item in stacks[0]["Outputs"]}
    return str(outputs["StateMachineArn"])


def make_caller(aws: Emulator, machine: str, *, bucket: str) -> Credentials:
    """Make a role that may do what docs/batch.md lists, and return its credentials."""
    role = make_role(aws, _CALLER)
    executions = machine.replace(":stateMachine:", ":execution:")
    runs = machine.replace(":stateMachine:", ":mapRun:")
    allowed = [
        (["StartExecution", "ListExecutions"], machine),
        (
            ["DescribeExecution", "GetExecutionHistory", "StopExecution", "ListMapRuns"],
            f"{executions}:*",
        ),
        (["DescribeMapRun"], f"{runs}/*"),
    ]
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": [f"states:{name}" for name in names], "Resource": on}
        for names, on in allowed
    ]
    listed = f"arn:aws:s3:::{bucket}"
    statements.append({"Effect": "Allow", "Action": "s3:ListBucket", "Resource": listed})
    aws.client("iam").put_role_policy(
        RoleName=_CALLER,
        PolicyName="Batch",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": statements}),
    )
    return aws.assume(role)


def remove_caller(aws: Emulator) -> None:
    """Remove the role."""
    aws.client("iam").delete_role_policy(RoleName=_CALLER, PolicyName="Batch")
    aws.client("iam").delete_role(RoleName=_CALLER)


def _followed(aws: Emulator, who: Credentials, machine: str, name: str) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(
        _embed(aws, who, machine, "status", name, "--follow", "--json")
    )
    return status


def _embed(aws: Emulator, who: Credentials, machine: str, *arguments: str) -> str:
    """Run `embed batch` and return what it prints.

    Raises:
        RuntimeError: It failed without a status.
    """
    variables: Mapping[str, str] = {
        **aws.variables(),
        "AWS_ACCESS_KEY_ID": who.key,
        "AWS_SECRET_ACCESS_KEY": who.secret,
        "AWS_SESSION_TOKEN": who.token or "",
        "EMBEDDING_BATCH": machine,
    }
    done = subprocess.run(
        [str(Path(sys.executable).with_name("embed")), "batch", *arguments],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise RuntimeError(f"embed batch {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _ids(aws: Emulator, folder: str) -> list[str]:
    bucket, _, prefix = folder.removeprefix("s3://").partition("/")
    s3 = aws.client("s3")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/part-").get("Contents", [])
    ids: list[str] = []
    for item in listed:
        body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        ids += pyarrow.parquet.read_table(io.BytesIO(body)).column("id").to_pylist()
    return ids
