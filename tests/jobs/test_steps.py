"""The frame of the jobs: a step's log, metrics and errors, and settings from JSON."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from embedder.core.settings import EmbedderSettings
from jobs.embed.job import Job
from jobs.errors import BatchError
from jobs.load.run import LoadSettings
from jobs.steps import Steps, logged, read_settings

CONTEXT = SimpleNamespace(aws_request_id="request-1")
SETTINGS = EmbedderSettings(
    artifact=Path(), metrics_namespace="Kit", environment="staging", function_name="batch-staging"
)
SECRET = "Zanzibar-4711"
DONE = {"part": "part-000007", "rows": 490, "written": True, "seconds": 24.5}


class Counting(Steps):
    """Steps that do the work on an item, or fail."""

    message = "batch"
    item = "shard"
    metrics = {"Rows": ("Count", "rows"), "ShardDuration": ("Seconds", "seconds")}  # noqa: RUF012

    def work(self, event):
        """Return the values of an item that is done."""
        if event.get("fail"):
            raise ValueError(SECRET)
        return {**DONE, **event.get("with", {})}


def run(**event: Any) -> dict[str, Any]:
    return logged(Counting(), SETTINGS)(event, CONTEXT)


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_item_leaves_a_line_of_log_and_a_record_of_metrics(capsys):
    """CloudWatch makes metrics of the record, by the function's name."""
    assert run(step="shard") == DONE
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
    assert directive == {
        "Namespace": "Kit",
        "Dimensions": [["FunctionName"]],
        "Metrics": [
            {"Name": "Rows", "Unit": "Count"},
            {"Name": "ShardDuration", "Unit": "Seconds"},
        ],
    }
    assert record == {"FunctionName": "batch-staging", "Rows": 490, "ShardDuration": 24.5}


def test_an_item_that_was_done_before_is_not_counted_again(capsys):
    """Step Functions may run an item twice; the metrics have its rows once."""
    run(step="shard", **{"with": {"written": False}})
    (log,) = lines(capsys)
    assert log["written"] is False


@pytest.mark.parametrize("event", [{}, {"step": "embed"}])
def test_another_step_is_refused_by_an_error_that_keeps_its_class(event, capsys):
    """Step Functions decides by the class whether to try again."""
    with pytest.raises(BatchError, match="step must be one of plan, shard, finish; found "):
        run(**event)
    (log,) = lines(capsys)
    assert (log["level"], log["error"], log["step"]) == ("ERROR", "BatchError", event.get("step"))


def test_an_unexpected_error_reveals_no_text(capsys):
    """Its message could quote a text, so its class and its place are reported."""
    with pytest.raises(Exception, match=r"ValueError at .*test_steps\.py:\d+ work") as raised:
        run(step="shard", fail=True)
    assert type(raised.value).__name__ == "UnexpectedError"
    (log,) = lines(capsys)
    assert log["fault"]["type"] == "ValueError"
    assert SECRET not in json.dumps(log) + str(raised.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"source": "a"}, "missing: destination"),
        ({"txt": "c"}, "A job has the settings .*: txt"),
        ({"text": None}, "text must be a text; found None"),
        ({"metadata": "title"}, "metadata must be a list of texts; found 'title'"),
        ({"metadata": [1]}, r"metadata must be a list of texts; found \[1\]"),
        ({"dimensions": "8"}, "dimensions must be a whole number; found '8'"),
        ({"shard_bytes": True}, "shard_bytes must be a whole number; found True"),
        ({"max_rejected_percent": "1"}, "max_rejected_percent must be a number; found '1'"),
    ],
)
def test_a_wrong_setting_of_json_is_named(value, message):
    """Each setting has its type, and no value is converted."""
    folders = {} if "source" in value else {"source": "a", "destination": "b"}
    with pytest.raises(BatchError, match=message):
        read_settings(Job, {**folders, **value}, name="A job")


def test_what_json_leaves_out_or_sets_to_null_has_its_default():
    """Settings that may be None may be null; a list becomes a tuple."""
    value = {"source": "a", "destination": "b", "id": None, "metadata": ["c"]}
    assert read_settings(Job, value, name="A job") == Job(
        source="a", destination="b", metadata=("c",)
    )
    load = {"source": "a", "index": "b", "metadata": None, "max_rejected_percent": 1}
    assert read_settings(LoadSettings, load, name="A load").metadata is None
