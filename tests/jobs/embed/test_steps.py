"""The steps of the state machine, over a stand-in for S3."""

import json
from datetime import UTC, datetime

import pytest

from embedder.core.engine import Engine
from embedding_client.batch.progress import run_of
from jobs.embed.errors import (
    BatchError,
    ChangedInputError,
    ChangedModelError,
    IncompleteJobError,
)
from jobs.embed.steps import Steps
from tests.embedder.small_model import WordTokenizer, manifest_of

LINES = [json.dumps({"id": f"d{number}", "text": f"text {number}"}) for number in range(40)]
DEFAULTS = {"source": "s3://in/docs/", "destination": "s3://out/vectors/"}
JOB = {"id": "id", "shard_bytes": 300, "max_rejected_percent": 5.0}


@pytest.fixture
def steps(engine) -> Steps:
    return Steps(engine)


@pytest.fixture
def planned(steps, s3) -> dict:
    s3.objects["in/docs/a.jsonl"] = "\n".join([*LINES[:30], "{broken", *LINES[30:]]).encode()
    return steps.run({"step": "plan", "defaults": DEFAULTS, "job": JOB})


def shards_of(planned, s3) -> list[dict]:
    """Read the items as the state machine does: a line of the file that the plan names."""
    lines = s3.objects[f"{planned['bucket']}/{planned['shards_key']}"].splitlines()
    return [json.loads(line) for line in lines]


def test_a_plan_says_where_the_state_machine_finds_the_shards(planned, s3) -> None:
    """Bucket and key are those of a file with one shard a line; the number of lines is `shards`."""
    assert planned["bucket"] == "out"
    assert planned["folder"] == f"s3://out/vectors/{planned['id']}"
    assert planned["shards_key"] == f"vectors/{planned['id']}/_job/shards.jsonl"
    assert planned["results_prefix"] == f"vectors/{planned['id']}/_job/results"
    assert len(shards_of(planned, s3)) == planned["shards"] > 3


def test_a_job_of_steps_adds_up(steps, planned, s3) -> None:
    """Every shard has a part, and the result has the sums; a shard that runs twice writes once."""
    items = [*shards_of(planned, s3), shards_of(planned, s3)[0]]
    done = [
        steps.run({"step": "shard", "folder": planned["folder"], "shard": item}) for item in items
    ]
    assert [one["written"] for one in done] == [True] * (len(items) - 1) + [False]
    assert done[0]["part"] == "part-000000"
    assert done[-1]["rows"] == done[0]["rows"] > 0
    result = steps.run({"step": "finish", "folder": planned["folder"]})
    assert result["folder"] == planned["folder"]
    assert (result["rows"], result["rejected"], result["shards"]) == (40, 1, planned["shards"])
    assert sum(one["tokens"] for one in done[:-1]) == result["tokens"]
    written = {path.rpartition("/")[2] for path in s3.objects if path.startswith("out/")}
    assert {"part-000000.parquet", "manifest.json", "job.json"} <= written


def test_each_run_of_a_shard_leaves_a_record_that_the_client_reads(engine, planned, s3) -> None:
    """Its name has the counts of the part, the duration and the memory; the file is empty."""
    steps = Steps(engine, memory_mb=1769)
    before = len(s3.requests)
    for item in shards_of(planned, s3):
        steps.run({"step": "shard", "folder": planned["folder"], "shard": item})
    methods = [method for method, _, _ in s3.requests[before:]]
    result = steps.run({"step": "finish", "folder": planned["folder"]})
    records = {key: data for key, data in s3.objects.items() if "/_job/progress/" in key}
    assert set(records.values()) == {b""}
    runs = [run_of(key.rpartition("/")[2], datetime.now(UTC)) for key in records]
    assert [run.part for run in runs] == [f"part-{n:06d}" for n in range(planned["shards"])]
    assert sum(run.rows for run in runs) == result["rows"] == 40
    assert sum(run.rejected for run in runs) == result["rejected"] == 1
    assert sum(run.tokens for run in runs) == result["tokens"]
    assert {run.memory_mb for run in runs} == {1769}
    # What the estimate of the costs assumes; one list of rejected rows is written too.
    assert methods.count("PUT") == 2 * planned["shards"] + 1
    assert len(s3.requests) - before < 12 * planned["shards"]


def test_the_job_that_is_started_again_is_the_same_one(steps, planned) -> None:
    """Settings, input and model give the folder, so a second execution continues the first."""
    again = steps.run({"step": "plan", "defaults": DEFAULTS, "job": JOB})
    assert again == planned


def test_the_executions_input_replaces_the_defaults(steps, planned, s3) -> None:
    """A job may name another folder of the prefixes."""
    s3.objects["in/docs/new/b.jsonl"] = LINES[0].encode()
    job = {"source": "s3://in/docs/new/", "destination": "s3://out/vectors/new", "id": "id"}
    found = steps.run({"step": "plan", "defaults": DEFAULTS, "job": job})
    assert found["shards"] == 1
    assert found["folder"].startswith("s3://out/vectors/new/")


def test_a_plan_must_end_within_lambdas_15_minutes(steps, s3, monkeypatch) -> None:
    """Larger CSV and gzip files are refused, with the other ways to embed them."""
    monkeypatch.setattr("jobs.embed.steps.LAMBDA_SCANNED_BYTES", 3)
    s3.objects["in/docs/a.csv"] = b"id,text\n1,x\n"
    with pytest.raises(BatchError, match=r"Lambda's 15 minutes; .* or run it with --local\."):
        steps.run({"step": "plan", "defaults": DEFAULTS})


def test_an_empty_input_has_no_shards(steps, s3) -> None:
    """A job without rows is complete at once."""
    found = steps.run({"step": "plan", "defaults": DEFAULTS})
    assert found["shards"] == 0
    assert steps.run({"step": "finish", "folder": found["folder"]})["rows"] == 0


def test_a_missing_shard_is_told_in_the_end(steps, planned) -> None:
    """The last step fails if a shard has no part."""
    with pytest.raises(IncompleteJobError, match="shards of job"):
        steps.run({"step": "finish", "folder": planned["folder"]})


def test_a_changed_input_ends_the_shard(steps, planned, s3) -> None:
    """S3 refuses the read of another object under the same key."""
    shard = shards_of(planned, s3)[0]
    s3.objects["in/docs/a.jsonl"] = b"other"
    with pytest.raises(ChangedInputError, match=r"s3://in/docs/a\.jsonl changed"):
        steps.run({"step": "shard", "folder": planned["folder"], "shard": shard})


def test_another_model_ends_the_shard(planned, s3, session) -> None:
    """A model that is deployed during a job writes nothing into the job's folder."""
    other = manifest_of(max_tokens=16)._replace(vector_space="small-model@def456/fp32/0")
    steps = Steps(Engine(other, WordTokenizer(), session))
    shard = shards_of(planned, s3)[0]
    before = dict(s3.objects)
    with pytest.raises(ChangedModelError, match=r"was planned with .*; the model is now "):
        steps.run({"step": "shard", "folder": planned["folder"], "shard": shard})
    assert s3.objects == before


@pytest.mark.parametrize("name", ["source", "destination"])
def test_a_folder_of_the_functions_own_disk_is_refused(steps, s3, name) -> None:
    """The next shard may run on another machine."""
    with pytest.raises(BatchError, match=f"{name} must be s3://BUCKET/PREFIX; found /tmp/x"):
        steps.run({"step": "plan", "defaults": DEFAULTS, "job": {name: "/tmp/x"}})


@pytest.mark.parametrize("event", [{}, {"step": "embed"}])
def test_another_step_is_refused(steps, event) -> None:
    """The error lists the steps."""
    with pytest.raises(BatchError, match="step must be one of plan, shard, finish; found "):
        steps.run(event)
