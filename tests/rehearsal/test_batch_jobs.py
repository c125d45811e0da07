"""The state machine of a batch in the emulated AWS, with the real planner and worker.

The stack is the construct's. Its function's events are answered here, with the credentials of the
function's role, so that the emulated AWS checks each request to S3 against the role's policies.
"""

import json
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from aws_cdk import App, Stack

from batch_embedding.errors import BatchError
from batch_embedding.job import Job
from batch_embedding.run import plan_job
from batch_embedding.steps import Steps
from batch_embedding.storage import open_folder
from batch_embedding.worker import embed_shard
from deploy_rehearsal.emulator import Emulator
from deploy_rehearsal.function import FunctionServer, Invocation
from embedder.engine import Engine
from embedding_client.batch_jobs import BatchJobs
from embedding_kit import BatchSettings, EmbeddingBatch, Model
from local_function_url.runtime import FunctionError
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of

ROWS = 2000
JOB = {"id": "id", "shard_bytes": 4000, "max_rejected_percent": 1.0}
KILLED = '{"errorMessage": "signal: killed", "errorType": "ExitError"}'
SETTINGS = BatchSettings(input="s3://documents/texts/", output="s3://vectors/batch")


class Batch(NamedTuple):
    """A deployed batch."""

    aws: Emulator
    machine: str
    engine: Engine
    #: The numbers of the shards whose next run ends as a killed process does.
    killed: set[int]
    #: Those whose next answer is lost after the shard is written.
    lost: set[int]
    #: The steps that have run.
    steps: list[str]

    def run(self, **job: Any) -> dict[str, Any]:
        """Start an execution and return its description in the end."""
        client = self.aws.client("stepfunctions")
        arn = client.start_execution(stateMachineArn=self.machine, input=json.dumps(job))[
            "executionArn"
        ]
        end = time.monotonic() + 240
        while time.monotonic() < end:
            found: dict[str, Any] = client.describe_execution(executionArn=arn)
            if found["status"] != "RUNNING":
                return found
            time.sleep(0.2)
        raise TimeoutError("the execution did not end")

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
    EmbeddingBatch(built, "Batch", model=Model(name="any/model"), settings=SETTINGS, name="test")
    resources: dict[str, Any] = app.synth().get_stack_by_name("Batch").template["Resources"]
    return resources


@pytest.fixture
def batch(
    aws: Emulator,
    function: FunctionServer,
    stack: Callable[..., None],
    template: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Batch:
    """Deploy the stack, and answer its function's events."""
    s3 = aws.client("s3")
    for bucket in ("documents", "vectors"):
        s3.create_bucket(Bucket=bucket)
    stack("batch", template)
    machines = aws.client("stepfunctions").list_state_machines()["stateMachines"]
    (machine,) = (found["stateMachineArn"] for found in machines)
    engine = Engine(manifest_of(max_tokens=16), WordTokenizer(), HashSession())
    made = Batch(aws, machine, engine, set(), set(), [])
    steps = Steps(engine, memory_mb=1769)

    def answer(invocation: Invocation) -> bytes:
        event = json.loads(invocation.event)
        made.steps.append(event["step"])
        number = event.get("shard", {}).get("number")
        if number in made.killed:
            raise FunctionError(KILLED)
        variables = {**invocation.credentials, "AWS_REGION": aws.region}
        for name, value in variables.items():
            os.environ[name] = value
        try:
            result = steps.run(event)
        except BatchError as error:
            told = {"errorMessage": str(error), "errorType": type(error).__name__}
            raise FunctionError(json.dumps(told)) from error
        if number in made.lost:
            made.lost.remove(number)
            raise FunctionError(KILLED)
        return json.dumps(result).encode()

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
    function.serve(answer)
    return made


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


def test_a_job_survives_killed_shards_and_equals_a_local_one(batch: Batch) -> None:
    """No row is lost and none is there twice; the parts have the bytes of a job on this machine."""
    write_documents(batch.aws)
    batch.killed.update({0, 7})
    batch.lost.add(3)
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
    os.environ.update(AWS_ACCESS_KEY_ID=root.key, AWS_SECRET_ACCESS_KEY=root.secret)
    del os.environ["AWS_SESSION_TOKEN"]
    # The status of the client adds up the same; the second execution embedded only two shards.
    status = BatchJobs(batch.machine).status(second["name"])
    assert (status.state, status.finished, status.failed) == ("SUCCEEDED", result["shards"], 0)
    assert (status.progress.rows, status.progress.rejected) == (ROWS - 2, 2)
    assert status.progress.cost > 0
    job = Job.from_json({**JOB, "source": SETTINGS.input, "destination": "s3://vectors/local"})
    plan = plan_job(job, batch.engine.manifest)
    for shard in plan.shards:
        source, output = open_folder(job.source), open_folder(plan.folder)
        embed_shard(batch.engine, source, output, shard, job)
    assert result["folder"] == f"s3://vectors/batch/{plan.id}"
    local = batch.parts(f"local/{plan.id}/part-")
    assert len(local) == result["shards"]
    assert batch.parts(f"batch/{plan.id}/part-") == local


def test_a_job_that_cannot_run_fails_once_with_its_reason(batch: Batch) -> None:
    """Another folder is refused by the role, and an unknown setting by the planner."""
    elsewhere = batch.run(source="s3://documents/other/")
    assert (elsewhere["status"], elsewhere["error"]) == ("FAILED", "BatchError")
    assert "s3://documents/other cannot be listed" in elsewhere["cause"]
    unknown = batch.run(txt="body")
    assert (unknown["status"], unknown["error"]) == ("FAILED", "BatchError")
    assert batch.steps == ["plan", "plan"]


def test_an_empty_folder_is_a_job_of_no_rows(batch: Batch) -> None:
    """The map is left out."""
    done = batch.run(source="s3://documents/texts/none/")
    assert done["status"] == "SUCCEEDED", done
    assert json.loads(done["output"])["rows"] == 0
    assert batch.steps == ["plan", "finish"]
