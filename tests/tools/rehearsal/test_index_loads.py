"""The state machine of loads in the emulated AWS, with the real planner and worker.

The emulated AWS has no S3 Vectors: the index is the stand-in of the loader's tests. Requests to S3
are checked against the policies of the function's role.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from embedder.core.s3_vectors import SPACE_TAG
from embedding_kit import IndexLoading, ModelSettings, VectorIndex
from jobs.load.handler import LoadSteps
from tests.fixtures.s3_vectors.indexes import Index
from tests.fixtures.s3_vectors.server import LocalS3Vectors
from tests.jobs import conftest as jobs
from tests.jobs.load import conftest as loading
from tests.jobs.load.conftest import ARN
from tests.jobs.load.test_run import THROTTLED
from tests.tools.rehearsal.executions import Jobs, answered
from tools.rehearsal.deploy.deployed_functions import FunctionServer
from tools.rehearsal.deploy.emulator import Emulator

# The fixtures of the loader's own tests: a finished job, and S3 Vectors.
session, engine = jobs.session, jobs.engine
embed, s3_vectors = loading.embed, loading.s3_vectors


@dataclass
class Loads(Jobs):
    """Deployed loads, with the names of parts."""

    s3_vectors: LocalS3Vectors = field(kw_only=True)
    stored: Index = field(kw_only=True)


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """Return the resources of a stack with loads into an index of another stack."""
    app = App(analytics_reporting=False)
    built = Stack(app, "Loads")
    IndexLoading(
        built,
        "Loading",
        model=ModelSettings(name="any/model"),
        index=VectorIndex.from_index_arn(built, "Index", ARN),
        source="s3://embedded/batch/",
        name="test",
    )
    resources: dict[str, Any] = app.synth().get_stack_by_name("Loads").template["Resources"]
    return resources


@pytest.fixture
def stored(aws: Emulator, embed: Callable[..., Path]) -> Iterator[None]:
    """Put a finished job into S3, which is empty again after the test."""
    s3, folder = aws.client("s3"), embed()
    s3.create_bucket(Bucket="embedded")
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"batch/{path.relative_to(folder.parent)}"
            s3.put_object(Bucket="embedded", Key=key, Body=path.read_bytes())
    yield
    for item in s3.list_objects_v2(Bucket="embedded").get("Contents", []):
        s3.delete_object(Bucket="embedded", Key=item["Key"])
    s3.delete_bucket(Bucket="embedded")


@pytest.fixture
def machine(aws: Emulator, stack: Callable[..., None], template: dict[str, Any]) -> str:
    """Deploy the stack and return the ARN of its state machine."""
    stack("loads", template)
    machines = aws.client("stepfunctions").list_state_machines()["stateMachines"]
    (found,) = (found["stateMachineArn"] for found in machines)
    return str(found)


@pytest.fixture
def loads(
    aws: Emulator, machine: str, function: FunctionServer, s3_vectors: LocalS3Vectors
) -> Iterator[Loads]:
    """Answer the function's events."""
    index = s3_vectors.create("docs", 32, non_filterable=("text",))
    made = Loads(aws, machine, s3_vectors=s3_vectors, stored=index)
    s3_vectors.any_credentials = True  # those of the function's role

    def run(event: dict[str, Any]) -> dict[str, Any]:
        # The rate is tested with another clock.
        fast = {"vectors_per_second": 1e9} if "vectors_per_second" in event else {}
        # New clients, which use the credentials of this role.
        return LoadSteps().run({**event, **fast})

    with answered(made, function, run, part_of=lambda event: event.get("part", {}).get("key")):
        yield made


@pytest.mark.slow
@pytest.mark.usefixtures("stored")
def test_a_load_survives_killed_and_throttled_parts(loads):
    """No vector is lost and none is there twice; the next execution loads what is missing."""
    loads.killed.update({"part-000000.parquet", "part-000002.parquet"})
    loads.lost.add("part-000001.parquet")
    loads.s3_vectors.failures = [THROTTLED] * 2
    first = loads.run()
    assert (first["status"], first["error"]) == ("FAILED", "IncompleteJobError")
    assert "part-000000, part-000002" in first["cause"]
    loads.killed.clear()
    loads.steps.clear()
    second = loads.run()
    assert second["status"] == "SUCCEEDED", second
    result = json.loads(second["output"])
    assert (result["rows"], result["loaded"], result["rejected"]) == (loading.ROWS, loading.ROWS, 0)
    assert sorted(loads.stored.vectors) == sorted(f"d{number}" for number in range(loading.ROWS))
    assert loads.stored.tags == {SPACE_TAG: result["vector_space"]}
    # Only the parts that were killed have work; the others' steps find their records.
    assert loads.steps.count("part") == result["parts"]
