"""The steps of a load's state machine, over files in S3, and Lambda's handler of them."""

import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from jobs.errors import BatchError, IncompleteJobError
from jobs.load.handler import LoadSteps
from tests.jobs.conftest import run_as_lambda
from tests.jobs.load.conftest import ARN, ROWS
from tests.jobs.local_s3 import LocalS3, local_s3

PLAN = {"step": "plan", "defaults": {"index": ARN, "source": "s3://vectors/jobs/"}}


@pytest.fixture
def s3(embed, index, monkeypatch) -> Iterator[LocalS3]:
    """Serve a finished job in S3."""
    folder = embed()
    with local_s3() as served:
        monkeypatch.setenv("AWS_REGION", "eu-central-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", served.url)
        for path in folder.rglob("*"):
            if path.is_file():
                name = f"vectors/jobs/{path.relative_to(folder.parent)}"
                served.objects[name] = path.read_bytes()
        yield served


@pytest.fixture
def steps() -> LoadSteps:
    return LoadSteps()


def lines(s3: LocalS3, planned: dict) -> list[dict]:
    """Return the items that the state machine reads."""
    return [json.loads(line) for line in s3.objects[f"vectors/{planned['parts_key']}"].splitlines()]


def test_the_steps_load_a_job_of_s3(s3, steps, index):
    """The state machine passes the plan's values on, and one item to each run of the worker."""
    planned = steps.run({**PLAN, "job": {"metadata": ["lang"]}})
    items = lines(s3, planned)
    assert len(items) == planned["parts"] > 3
    part = {"step": "part", "folder": planned["folder"], "vectors_per_second": 1e9}
    first = steps.run({**part, "part": items[0]})
    assert first["part"] == "part-000000.parquet"
    assert (first["written"], first["rejected"], first["replaced"]) == (True, 0, 0)
    assert steps.run({**part, "part": items[0]})["written"] is False
    with pytest.raises(IncompleteJobError, match=r"parts in s3://.* are not done yet"):
        steps.run({"step": "finish", "folder": planned["folder"]})
    for item in items[1:]:
        steps.run({**part, "part": item})
    done = steps.run({"step": "finish", "folder": planned["folder"]})
    assert (done["rows"], done["loaded"], len(index.vectors)) == (ROWS, ROWS, ROWS)
    assert f"vectors/{planned['results_prefix']}".startswith(done["folder"].removeprefix("s3://"))
    assert all("text" in vector.metadata for vector in index.vectors.values())


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"step": "none"}, "step must be one of plan, part, finish; found 'none'"),
        ({"step": "plan", "job": {"source": "s3://a"}}, "missing: index"),
        ({**PLAN, "job": {"txt": 1}}, "unknown: txt"),
        ({**PLAN, "job": ["s3://a"]}, "must be an object of settings; found list"),
        ({**PLAN, "job": {"source": "/a"}}, "must be s3://BUCKET/P"),
        ({**PLAN, "job": {"source": 1}}, "source must be a text; found 1"),
        ({**PLAN, "job": {"metadata": "a"}}, "metadata must be a list of texts"),
        ({**PLAN, "job": {"index": ARN + "2"}}, "machine loads the index .*docs; found .*docs2"),
    ],
)
def test_what_a_load_cannot_be(steps, event, problem):
    """The error lists the allowed values, before the job reads a file."""
    with pytest.raises(BatchError, match=problem):
        steps.run(event)


def test_the_handler_logs_a_part_with_its_metrics(s3, index, monkeypatch, capsys):
    """The namespace and the function's name come from the variables."""
    monkeypatch.setenv("EMBEDDING_METRICS_NAMESPACE", "Kit")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "loads")
    monkeypatch.delitem(sys.modules, "jobs.load.handler", raising=False)
    from jobs.load.handler import handler

    context = SimpleNamespace(aws_request_id="request-1")
    planned = handler({**PLAN, "job": {}}, context)
    part = {"step": "part", "folder": planned["folder"], "vectors_per_second": 1e9}
    handler({**part, "part": lines(s3, planned)[0]}, context)
    plan, log, record = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (plan["message"], plan["step"], plan["parts"]) == ("load", "plan", planned["parts"])
    assert (log["step"], log["requestId"], log["written"]) == ("part", "request-1", True)
    (directive,) = record.pop("_aws")["CloudWatchMetrics"]
    assert directive["Namespace"] == "Kit"
    assert record == {
        "FunctionName": "loads",
        "LoadedVectors": log["loaded"],
        "RejectedVectors": 0,
        "LoadDuration": log["seconds"],
    }


def test_the_handler_loads_no_model():
    """Neither the engine nor its library is imported."""
    code = (
        "import json, sys, jobs.load.handler\n"
        "print(json.dumps([*{'onnxruntime', 'embedder.core.engine'} & {*sys.modules}]))"
    )
    assert run_as_lambda(code) == [[]]
