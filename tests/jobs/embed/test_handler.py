"""Lambda's handler of a batch: its log, its metrics and its errors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from embedder.core.artifact import Artifact
from embedder.core.settings import Settings
from jobs.embed.errors import BatchError
from jobs.embed.steps import Steps

SOURCE_ROOT = Path(__file__).parents[3] / "lambda_image"
CONTEXT = SimpleNamespace(aws_request_id="request-1")
SETTINGS = Settings(
    artifact=Path(), metrics_namespace="Kit", environment="staging", function_name="batch-staging"
)
SECRET = "Zanzibar-4711"
DONE = {
    "part": "part-000007",
    "rows": 490,
    "rejected": 10,
    "tokens": 98_000,
    "vector_space": "small-model@abc123/fp32/0123456789ab/32",
    "written": True,
    "seconds": 24.5,
}


@pytest.fixture
def handle(monkeypatch, minilm_artifact: Artifact):
    """Return the function without the model that the module loads."""
    monkeypatch.setenv("EMBEDDING_ARTIFACT", str(minilm_artifact.folder))
    from jobs.embed.handler import handle

    return handle


@pytest.fixture
def steps(engine, monkeypatch) -> Steps:
    """Return steps whose `shard` returns the values of a shard that is done."""
    made = Steps(engine)
    monkeypatch.setitem(made._steps, "shard", lambda event: {**DONE, **event.get("with", {})})
    return made


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_shard_leaves_a_line_of_log_and_a_record_of_metrics(handle, steps, capsys) -> None:
    """CloudWatch makes metrics of the record, by the function's name."""
    event = {"step": "shard"}
    assert handle(steps, SETTINGS, event, CONTEXT) == DONE
    log, record = lines(capsys)
    assert log.pop("timestamp").endswith("+00:00")
    assert log.pop("durationMs") >= 0
    assert log == {
        "level": "INFO",
        "message": "batch",
        "requestId": "request-1",
        "environment": "staging",
        "step": "shard",
        **DONE,
    }
    (directive,) = record.pop("_aws")["CloudWatchMetrics"]
    assert directive["Namespace"] == "Kit"
    assert directive["Dimensions"] == [["FunctionName"]]
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == {
        "Rows": "Count",
        "RejectedRows": "Count",
        "Tokens": "Count",
        "ShardDuration": "Seconds",
    }
    assert record == {
        "FunctionName": "batch-staging",
        "Rows": 490,
        "RejectedRows": 10,
        "Tokens": 98_000,
        "ShardDuration": 24.5,
    }


def test_a_shard_that_was_done_before_is_not_counted_again(handle, steps, capsys) -> None:
    """Step Functions may run a shard twice; the metrics have its rows once."""
    handle(steps, SETTINGS, {"step": "shard", "with": {"written": False}}, CONTEXT)
    (log,) = lines(capsys)
    assert log["written"] is False


def test_an_error_of_a_step_keeps_its_class(handle, steps, capsys) -> None:
    """Step Functions decides by the class whether to try again."""
    with pytest.raises(BatchError, match="step must be one of"):
        handle(steps, SETTINGS, {"step": "stop"}, CONTEXT)
    (log,) = lines(capsys)
    assert (log["level"], log["error"], log["step"]) == ("ERROR", "BatchError", "stop")


def test_an_unexpected_error_reveals_no_text(handle, steps, monkeypatch, capsys) -> None:
    """Its message could quote a text, so its class and its place are reported."""

    def fail(event: dict) -> dict:
        raise ValueError(SECRET)

    monkeypatch.setitem(steps._steps, "shard", fail)
    with pytest.raises(Exception, match=r"ValueError at .*test_handler\.py:\d+ fail") as raised:
        handle(steps, SETTINGS, {"step": "shard"}, CONTEXT)
    assert type(raised.value).__name__ == "UnexpectedError"
    (log,) = lines(capsys)
    assert log["fault"]["type"] == "ValueError"
    assert SECRET not in json.dumps(log) + str(raised.value)


def test_the_image_runs_a_job_with_what_lambda_sets(s3, minilm_artifact: Artifact) -> None:
    """A fresh interpreter with Lambda's variables embeds a job of S3, and imports no client."""
    s3.objects["in/a.jsonl"] = b'{"text": "one"}\n{"text": "two words"}\n'
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("EMBEDDING_")},
        "AWS_LAMBDA_FUNCTION_NAME": "batch-dev",
        "EMBEDDING_ARTIFACT": str(minilm_artifact.folder),
        "EMBEDDING_METRICS_NAMESPACE": "EmbeddingKit/dev",
        "PYTHONPATH": str(SOURCE_ROOT),
    }
    code = (
        "import json, sys\n"
        "from jobs.embed.handler import handler\n"
        "job = {'source': 's3://in/', 'destination': 's3://out/'}\n"
        "plan = handler({'step': 'plan', 'job': job}, None)\n"
        "from jobs.embed.run import load_plan\n"
        "for item in load_plan(plan['folder']).shards:\n"
        "    step = {'step': 'shard', 'folder': plan['folder'], 'shard': item.as_json()}\n"
        "    handler(step, None)\n"
        "handler({'step': 'finish', 'folder': plan['folder']}, None)\n"
        "print(json.dumps([n for n in ('boto3', 'botocore', 'tqdm') if n in sys.modules]))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    *told, imported = (json.loads(line) for line in finished.stdout.splitlines())
    assert [line["step"] for line in told if "step" in line] == ["plan", "shard", "finish"]
    (record,) = (line for line in told if "_aws" in line)
    assert (record["Rows"], record["FunctionName"]) == (2, "batch-dev")
    assert imported == []
    assert any(path.endswith("/part-000000.parquet") for path in s3.objects)
