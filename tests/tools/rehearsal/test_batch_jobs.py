"""The state machine of a batch in the emulated AWS, with the real planner and worker.

The stack is the construct's. Its function's events are answered here, with the credentials of the
function's role, so that the emulated AWS checks each request to S3 against the role's policies.
"""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from aws_cdk import App, Stack
from botocore.credentials import ReadOnlyCredentials

from embedder.core.engine import Engine
from embedding_client import BatchJobs
from embedding_client._job_commands import look
from embedding_kit import BatchSettings, EmbeddingBatch, ModelSettings
from jobs.embed.job import Job
from jobs.embed.run import EmbedSteps, plan_job
from jobs.embed.worker import embed_shard
from jobs.steps import read_settings
from jobs.storage import open_folder
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of
from tests.tools.rehearsal.executions import Jobs, answered
from tools.rehearsal.deploy.deployed_functions import FunctionServer
from tools.rehearsal.deploy.emulator import Emulator

pytestmark = pytest.mark.slow

ROWS = 2000
JOB = {"id": "id", "shard_bytes": 4000, "max_rejected_percent": 1.0}
SETTINGS = BatchSettings(input="s3://documents/texts/", output="s3://vectors/batch")


@dataclass
class Batch(Jobs):
    """A deployed batch, with the numbers of shards as parts."""

    engine: Engine = field(kw_only=True)
    #: Those that two children embed at a time: EXPRESS executions run at least once.
    twice: set[int] = field(default_factory=set)
    #: Called before a shard, by its number.
    before: dict[int, Callable[[], object]] = field(default_factory=dict)

    def parts(self, prefix: str) -> dict[str, bytes]:
        """Return the files of the output below a prefix, by their names."""
        s3 = self.aws.client("s3")
        listed = s3.get_paginator("list_objects_v2").paginate(Bucket="vectors", Prefix=prefix)
        keys = [item["Key"] for page in listed for item in page.get("Contents", [])]
        return {
            key.rpartition("/")[2]: s3.get_object(Bucket="vectors", Key=key)["Body"].read()
            for key in keys
            if key.endswith(".parquet")
        }


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """Return the resources of a stack with a batch."""
    app = App(analytics_reporting=False)
    built = Stack(app, "Batch")
    EmbeddingBatch(
        built, "Batch", model=ModelSettings(name="any/model"), settings=SETTINGS, name="test"
    )
    resources: dict[str, Any] = app.synth().get_stack_by_name("Batch").template["Resources"]
    return resources


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return a small engine, or that of the artifact of the fixture that a test names."""
    if name := getattr(request, "param", None):
        return Engine.load(request.getfixturevalue(name))
    return Engine(manifest_of(max_tokens=16), WordTokenizer(), HashSession())


@pytest.fixture
def batch(
    aws: Emulator,
    engine: Engine,
    *,
    function: FunctionServer,
    stack: Callable[..., None],
    template: dict[str, Any],
) -> Iterator[Batch]:
    """Deploy the stack, and answer its function's events."""
    s3 = aws.client("s3")
    for bucket in ("documents", "vectors"):
        s3.create_bucket(Bucket=bucket)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", []):
                s3.delete_object(Bucket=bucket, Key=item["Key"])
    stack("batch", template)
    machines = aws.client("stepfunctions").list_state_machines()["stateMachines"]
    (machine,) = (found["stateMachineArn"] for found in machines)
    made = Batch(aws, machine, engine=engine)
    steps = EmbedSteps(engine, memory_mb=1769)

    def shard_of(event: dict[str, Any]) -> Any:
        return event.get("shard", {}).get("number")

    def run(event: dict[str, Any]) -> dict[str, Any]:
        number = shard_of(event)
        made.before.pop(number, int)()
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(steps.run, event) for _ in range(1 + (number in made.twice))]
            return [run.result() for run in runs][-1]

    with answered(made, function, run, part_of=shard_of):
        yield made


def write_documents(aws: Emulator) -> None:
    """Write rows in two files, one of them not JSON and one without a text."""
    lines = [
        json.dumps({"id": f"d{number}", "text": f"text number {number}"}) for number in range(ROWS)
    ]
    lines[123], lines[1456] = "{broken", json.dumps({"id": "d1456", "text": " "})
    half = ROWS // 2
    for name, part in (("a", lines[:half]), ("b/c", lines[half:])):
        aws.client("s3").put_object(
            Bucket="documents", Key=f"texts/{name}.jsonl", Body="\n".join(part).encode()
        )


def test_a_job_survives_killed_shards_and_equals_a_local_one(batch):
    """No row is lost and none is there twice; the parts have the bytes of a job on this machine."""
    write_documents(batch.aws)
    batch.killed.update({0, 7})
    batch.lost.add(3)
    batch.twice.update({1, 2, 3, 4})
    first = batch.run(**JOB)
    assert (first["status"], first["error"]) == ("FAILED", "IncompleteJobError")
    assert "part-000000, part-000007" in first["cause"]
    # Finish ran once, because its error is final. Killed shards were tried again, at most twice: a
    # throttle of a busy machine takes one of the tries.
    shards = batch.steps.count("shard")
    assert batch.steps.count("finish") == 1
    batch.killed.clear()
    batch.steps.clear()
    second = batch.run(**JOB)
    assert second["status"] == "SUCCEEDED", second
    result = json.loads(second["output"])
    assert (result["rows"], result["rejected"]) == (ROWS - 2, 2)
    assert batch.steps.count("shard") == result["shards"]
    assert result["shards"] + 1 < shards <= result["shards"] + 5

    root = batch.aws.root
    os.environ.update(AWS_ACCESS_KEY_ID=root.access_key, AWS_SECRET_ACCESS_KEY=root.secret_key)
    del os.environ["AWS_SESSION_TOKEN"]
    # The status of the client adds up the same; the second execution embedded only two shards.
    status = look(BatchJobs(batch.machine), second["name"])
    assert (status.job.state, status.finished, status.job.failed) == (
        "SUCCEEDED",
        result["shards"],
        0,
    )
    assert (status.progress.rows, status.progress.rejected) == (ROWS - 2, 2)
    assert status.progress.cost > 0
    folders = {"source": SETTINGS.input, "destination": "s3://vectors/local"}
    job = read_settings(Job, {**JOB, **folders}, name="A job")
    plan = plan_job(job, batch.engine.manifest)
    for shard in plan.shards:
        source, output = open_folder(job.source), open_folder(plan.folder)
        embed_shard(batch.engine, source, output, shard, job)
    assert result["folder"] == f"s3://vectors/batch/{plan.id}"
    local = batch.parts(f"local/{plan.id}/part-")
    assert len(local) == result["shards"]
    assert batch.parts(f"batch/{plan.id}/part-") == local


def test_an_input_that_changes_during_a_job_ends_it(batch):
    """The started job has parts of one input only; started again, it is another job."""
    write_documents(batch.aws)
    s3 = batch.aws.client("s3")
    changed = json.dumps({"id": "new", "text": "another text"}).encode()

    def change() -> None:
        s3.put_object(Bucket="documents", Key="texts/a.jsonl", Body=changed)

    batch.before[5] = change
    first = batch.run(**JOB)
    assert (first["status"], first["error"]) == ("FAILED", "IncompleteJobError")
    # An error of the input is final: each shard of the old plan ran once.
    planned = batch.aws.client("stepfunctions").list_map_runs(executionArn=first["executionArn"])
    run = batch.aws.client("stepfunctions").describe_map_run(
        mapRunArn=planned["mapRuns"][0]["mapRunArn"]
    )
    assert batch.steps.count("shard") == run["itemCounts"]["total"]
    assert 0 < run["itemCounts"]["failed"] < run["itemCounts"]["total"]
    second = batch.run(**JOB)
    assert second["status"] == "SUCCEEDED", second
    result = json.loads(second["output"])
    assert (result["rows"], result["rejected"]) == (1 + ROWS // 2 - 1, 1)
    assert result["folder"].rpartition("/")[2] not in first["cause"]


def caller_of(aws: Emulator, machine: str, *, bucket: str) -> ReadOnlyCredentials:
    """Return the credentials of a role that may do what docs/batch.md lists."""
    role = f"batch-caller-{bucket}"
    executions = machine.replace(":stateMachine:", ":execution:")
    of_executions = ("DescribeExecution", "GetExecutionHistory", "StopExecution", "ListMapRuns")
    allowed: dict[str, tuple[str, ...]] = {
        machine: ("states:StartExecution", "states:ListExecutions"),
        f"{executions}:*": tuple(f"states:{name}" for name in of_executions),
        f"{machine.replace(':stateMachine:', ':mapRun:')}/*": ("states:DescribeMapRun",),
        f"arn:aws:s3:::{bucket}": ("s3:ListBucket",),
    }
    statements = [
        {"Effect": "Allow", "Action": list(actions), "Resource": resource}
        for resource, actions in allowed.items()
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    aws.make_role(role)
    aws.client("iam").put_role_policy(RoleName=role, PolicyName="Batch", PolicyDocument=document)
    return aws.assume(role)


@pytest.mark.parametrize(("bucket", "rows"), [("vectors", 1), ("other", None)])
def test_the_documented_permissions_are_enough_for_a_status(batch, bucket, rows):
    """A caller who may not list the output still sees the shards."""
    s3 = batch.aws.client("s3")
    s3.put_object(Bucket="documents", Key="texts/one/a.jsonl", Body=b'{"id": "a", "text": "one"}')
    done = batch.run(source="s3://documents/texts/one/", id="id")
    who = caller_of(batch.aws, batch.machine, bucket=bucket)
    os.environ.update(
        AWS_ACCESS_KEY_ID=who.access_key,
        AWS_SECRET_ACCESS_KEY=who.secret_key,
        AWS_SESSION_TOKEN=who.token,
    )
    status = look(BatchJobs(batch.machine), done["name"])
    assert (status.job.state, status.finished) == ("SUCCEEDED", 1)
    assert (status.progress and status.progress.rows) == rows
    assert ("s3:ListBucket" in (status.unknown or "")) is (rows is None)


def test_a_job_that_cannot_run_fails_once_with_its_reason(batch):
    """Another folder is refused by the role, and an unknown setting by the planner."""
    elsewhere = batch.run(source="s3://documents/other/")
    assert (elsewhere["status"], elsewhere["error"]) == ("FAILED", "BatchError")
    assert "s3://documents/other cannot be listed" in elsewhere["cause"]
    unknown = batch.run(txt="body")
    assert (unknown["status"], unknown["error"]) == ("FAILED", "BatchError")
    assert batch.steps == ["plan", "plan"]


def test_an_empty_folder_is_a_job_of_no_rows(batch):
    """The map is left out."""
    done = batch.run(source="s3://documents/texts/none/")
    assert done["status"] == "SUCCEEDED", done
    assert json.loads(done["output"])["rows"] == 0
    assert batch.steps == ["plan", "finish"]
