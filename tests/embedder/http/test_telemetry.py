"""The log line and the metrics of a request."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedder.core.engine import Engine
from embedder.core.settings import EmbedderSettings
from embedder.http.router import Router
from embedder.http.telemetry import Telemetry
from operations.cost.bill import LOG_BYTES, METRICS
from tests.embedder.calls import get, post

MakeRouter = Callable[..., Router]
Capture = pytest.CaptureFixture[str]
SECRET = "Zanzibar-4711"


@pytest.fixture
def told(make_router: MakeRouter) -> Router:
    router = make_router(cache_entries=10, index=["a", "b"])
    router.telemetry = Telemetry(
        EmbedderSettings(
            artifact=Path(),
            metrics_namespace="Kit",
            environment="staging",
            function_name="embedder-staging",
            function_version="7",
        )
    )
    return router


def lines(capsys: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_request_leaves_a_line_of_log(told, capsys):
    """The line has the operation, the status, and the times and counts of the request."""
    post(told, "/v1/embeddings", {"input": ["a", "b c d", "b c d"], "dimensions": 8})
    log, _ = lines(capsys)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", log.pop("timestamp"))
    times = {name: log.pop(name) for name in ("durationMs", "tokenizationMs", "inferenceMs")}
    assert all(value >= 0 for value in times.values())
    assert log.pop("responseBytes") > 200
    assert log == {
        "level": "INFO",
        "message": "request",
        "requestId": "request-1",
        "environment": "staging",
        "api": "openai",
        "operation": "create_embeddings",
        "status": 200,
        "coldStart": True,
        "requestBytes": 46,
        "vectorSpace": "small-model@abc123/fp32/0123456789ab/8",
        "texts": 3,
        "tokens": 13,
        "runs": 1,
        "cacheHits": 1,
        "repeats": 1,
        "paddingWaste": 37.5,
    }


def test_a_request_leaves_about_as_much_log_as_scripts_cost_prices(told, capsys):
    """Added: 480 bytes of the platform's start and report, and 26 for each of the four events."""
    post(told, "/v1/embeddings", {"input": ["a"]})
    written = capsys.readouterr().out.splitlines()
    ids = len("6d68ca91-49c9-448d-89b8-7ca3e6dc66aa") - len("request-1")
    size = sum(len(line) + ids for line in written) + 480 + 4 * 26
    assert size == pytest.approx(LOG_BYTES, rel=0.1)


def test_a_request_leaves_a_record_of_metrics(told, capsys):
    """Each metric is defined with its unit and has a value in the record."""
    post(told, "/embed", {"inputs": ["x", "y z"]})
    _, record = lines(capsys)
    directive, of_version = record["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == of_version["Namespace"] == "Kit"
    assert of_version["Dimensions"] == [["FunctionName", "Version"]]
    assert record["Version"] == "7"
    assert of_version["Metrics"] == [
        {"Name": "Requests", "Unit": "Count"},
        {"Name": "ServerErrors", "Unit": "Count"},
    ]
    assert directive["Dimensions"] == [["FunctionName"], ["FunctionName", "Api", "Status"]]
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == {
        "Requests": "Count",
        "ColdStarts": "Count",
        "Texts": "Count",
        "Tokens": "Count",
        "TokenizationTime": "Milliseconds",
        "InferenceTime": "Milliseconds",
        "CacheHits": "Count",
        "BatchSize": "Count",
        "PaddingWaste": "Percent",
    }
    assert isinstance(record["_aws"]["Timestamp"], int)
    dimensions = {name: record[name] for name in ("FunctionName", "Api", "Status")}
    assert dimensions == {"FunctionName": "embedder-staging", "Api": "tei", "Status": "200"}
    assert (record["Requests"], record["Texts"], record["Tokens"]) == (1, 2, 7)
    assert record["BatchSize"] == [2]
    assert record["PaddingWaste"] == 12.5
    # `scripts/cost` prices each metric for each of its sets of dimensions, as CloudWatch does.
    own = sum(
        len(metrics["Metrics"]) * len(metrics["Dimensions"]) for metrics in (directive, of_version)
    )
    assert own == METRICS


def test_every_metric_that_is_defined_has_a_value(told, capsys):
    """CloudWatch drops a record with a metric or dimension that has no value."""
    post(told, "/", {"text": "a"})
    post(told, "/", {"text": ""})
    get(told, "/health")
    directives = [
        (record, directive)
        for record in lines(capsys)
        if "_aws" in record
        for directive in record["_aws"]["CloudWatchMetrics"]
    ]
    assert len(directives) == 6
    for record, directive in directives:
        assert {metric["Name"] for metric in directive["Metrics"]} <= record.keys()
        assert {name for names in directive["Dimensions"] for name in names} <= record.keys()


@pytest.mark.parametrize("path", ["/", "/v1/embeddings", "/embed"])
def test_a_server_error_counts_for_its_version_whatever_its_status(told, session, capsys, path):
    """A failed inference counts even with TEI's status 424, and a client error does not count."""
    body = {"/": "text", "/v1/embeddings": "input", "/embed": "inputs"}[path]
    statuses = [post(told, path, content).status for content in [{body: "a b"}, {body: 3}]]
    session.failure = RuntimeError("no memory")
    statuses.append(post(told, path, {body: "c d"}).status)
    records = lines(capsys)[1::2]
    assert statuses[0] == 200
    assert 400 <= statuses[1] < 500
    assert statuses[2] in {424, 500}
    assert [(record["Requests"], record["ServerErrors"]) for record in records] == [
        (1, 0),
        (1, 0),
        (1, 1),
    ]


def test_only_the_first_request_is_a_cold_start(told, capsys):
    """A cold start is recorded once: in the log, in the metric, and for the caller."""
    answers = [get(told, "/health") for _ in range(3)]
    told_lines = lines(capsys)
    assert [answer.headers.get("x-cold-start") for answer in answers] == ["true", None, None]
    assert [line["coldStart"] for line in told_lines[0::2]] == [True, False, False]
    assert [line["ColdStarts"] for line in told_lines[1::2]] == [1, 0, 0]


def test_nobody_waits_for_a_provisioned_start(make_router, capsys):
    """Initialization ended before the first request, so that request is not a cold start."""
    router = make_router()
    settings = EmbedderSettings(artifact=Path(), initialization="provisioned-concurrency")
    router.telemetry = Telemetry(settings)
    assert "x-cold-start" not in get(router, "/health").headers
    log, metrics = lines(capsys)
    assert (log["coldStart"], metrics["ColdStarts"]) == (False, 0)


def test_an_answer_from_the_cache_has_no_batch(told, capsys):
    """A batch size of zero would lower the average of real batches."""
    post(told, "/similar", {"text": "a"})
    log, record = lines(capsys)
    assert 0 <= log["searchMs"] <= log["durationMs"]
    assert record["CacheHits"] == 1
    assert "BatchSize" not in record
    assert "PaddingWaste" not in record


def test_a_record_has_at_most_a_hundred_values(told, capsys):
    """CloudWatch drops a record with a longer list."""
    engine = told.model.loaded
    assert isinstance(engine, Engine)
    engine.request_tokenizer.limits = engine.limits._replace(
        max_tokens=100_000, max_characters=10**6
    )
    texts = [" ".join(f"w{number}" for number in range(length * 70)) for length in range(1, 111)]
    post(told, "/", {"texts": texts})
    log, record = lines(capsys)
    assert log["runs"] > 100
    assert len(record["BatchSize"]) == 100


BODIES = [
    {"text": SECRET},
    {"text": SECRET, "size": SECRET},
    {"text": [SECRET]},
    {SECRET: "a"},
    {"text": "a", SECRET: SECRET},
    {"text": "a", "truncate": SECRET},
    {"text": "a", "prompt_name": SECRET},
    {"input": SECRET, "model": f"model:{SECRET}"},
    {"input": SECRET, "user": SECRET, "encoding_format": SECRET},
    {"inputs": [SECRET + " w" * 5000]},
    {"inputs": {"source_sentence": SECRET, "sentences": [SECRET, SECRET]}},
    {"inputs": {"source_sentence": SECRET, SECRET: 1}},
    SECRET,
    SECRET.encode() + b'{"text": "\\ud800"}',
    b'{"text": "' + SECRET.encode(),
]
PATHS = ["/", "/similar", "/v1/embeddings", "/embed", "/embeddings", "/similarity", "/tokenize"]


@pytest.mark.parametrize("path", [*PATHS, "/api/v1/embed", f"/{SECRET}"])
def test_no_text_reaches_the_log(told, session, capfd, path):
    """No field, path or exception message with a user's text is logged."""
    for failure in (None, RuntimeError(f"cannot embed {SECRET}")):
        session.failure = failure
        for body in BODIES:
            post(told, path, body)
    captured = capfd.readouterr()
    assert SECRET not in captured.out
    assert SECRET not in captured.err
    assert len(captured.out.splitlines()) == 4 * len(BODIES)


def test_an_unexpected_fault_is_told_by_class_and_place(told, capsys, monkeypatch):
    """The log has the exception's class and location, but not its message, which may have text."""

    def broken(*_: object) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr(told.model.loaded, "embed_request", broken)
    response = post(told, "/", {"text": "a"})
    log, _ = lines(capsys)
    assert response.status == log["status"] == 500
    assert log["level"] == "ERROR"
    assert log["error"] == "internal_error"
    assert log["fault"]["type"] == "KeyError"
    assert log["fault"]["trace"][-1].endswith(" broken")
    assert SECRET not in json.dumps(log)
