"""The values of Lambda's reports, and requests that AWS may refuse; the rehearsal does the rest."""

import base64
import io
import itertools
import json
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from botocore.exceptions import ClientError

from embedding_kit.settings import ModelSettings
from stacks.environment import EnvironmentSettings
from tools.prove.measure import REPEATS, VECTORS, Endpoint

ALIAS = "arn:aws:lambda:us-east-1:123456789012:function:embedder:live"
INDEX = "arn:aws:s3vectors:us-east-1:123456789012:bucket/b/index/i"
#: As in AWS's schema of the Telemetry API.
JSON = {"durationMs": 8.1, "billedDurationMs": 9, "memorySizeMB": 1769, "maxMemoryUsedMB": 120}
TEXT = (
    "START RequestId: 1\nREPORT RequestId: 1\tDuration: 8.10 ms\tBilled Duration: 9 ms\t"
    "Memory Size: 1769 MB\tMax Memory Used: 120 MB\tRestore Duration: 440.5 ms\t"
    "Billed Restore Duration: 200 ms\t\n"
)


class _Aws:
    """Lambda, logs and S3 Vectors with one function; it keeps the requests."""

    def __init__(self, logs=lambda _: _record(JSON), error: ClientError | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._numbers, self._log, self._error = itertools.count(), logs, error

    def create_client(self, _service: str, **_: Any) -> "_Aws":
        return self

    def get_waiter(self, _name: str) -> SimpleNamespace:
        return SimpleNamespace(wait=lambda **_: None)

    def get_paginator(self, name: str) -> SimpleNamespace:
        record = {"record": {"metrics": {"durationMs": 321.5}}}
        pages: list[dict[str, Any]] = [
            {"events": [{"message": json.dumps(record)}]},
            {"events": []},
        ]

        def paginate(**asked: Any) -> list[dict[str, Any]]:
            self.calls.append((name, asked))
            return pages

        return SimpleNamespace(paginate=paginate)

    def invoke(self, **asked: Any) -> dict[str, Any]:
        event = json.loads(asked["Payload"])
        body = json.loads(event.get("body", "") or "{}")
        answers = {
            "/info": {"max_input_length": 256},
            "/similar": {"results": []},
            "/": {
                "tokens": 8,
                "embeddings": [[0.5] * body.get("size", 1)] * len(body.get("texts", [])),
                "vector_space": "a-space",
            },
        }
        if event["rawPath"] == "/":
            assert body["texts"]
        self.calls.append((event["rawPath"], body))
        result = {"statusCode": 200, "body": json.dumps(answers[event["rawPath"]])}
        log = self._log(next(self._numbers)).encode()
        return {
            "Payload": io.BytesIO(json.dumps(result).encode()),
            "LogResult": base64.b64encode(log).decode(),
        }

    def __getattr__(self, name: str):
        answers: dict[str, dict[str, Any]] = {
            "get_function_configuration": {
                "Environment": {"Variables": {"A": "b"}},
                "LoggingConfig": {"LogGroup": "the-group"},
            },
            "get_index": {"index": {"dimension": 4}},
            "describe_stacks": {
                "Stacks": [
                    {
                        "StackStatus": "CREATE_COMPLETE",
                        "Outputs": [{"OutputKey": "IndexArn", "OutputValue": INDEX}],
                    }
                ]
            },
        }

        def call(**asked: Any) -> dict[str, Any]:
            self.calls.append((name, asked))
            if name == "update_function_configuration" and self._error:
                raise self._error
            return answers.get(name, {})

        return call

    def of(self, name: str) -> list[dict[str, Any]]:
        return [asked for called, asked in self.calls if called == name]


def _record(metrics: dict[str, Any]) -> str:
    report = {"time": "t", "type": "platform.report", "record": {"metrics": metrics}}
    return f"{json.dumps({'message': 'platform.report'})}\n{json.dumps(report)}\n"


def _endpoint(aws: _Aws) -> Endpoint:
    environment = EnvironmentSettings(name="x", model=ModelSettings(name="any/model"))
    return Endpoint(aws, environment, url="https://x.example/", alias=ALIAS)


def test_only_reported_starts_count():
    """Each invocation has another value of a variable next to those of the function."""
    metrics = [JSON | {"initDurationMs": 150.0 + n} for n in range(3)]
    aws = _Aws(lambda n: _record([JSON, metrics[0], JSON, metrics[1]][n] if n < 4 else JSON))
    found = _endpoint(aws).memory(1769, starts=2, pause=0)
    assert found["init_ms"] == [150.0, 151.0]
    assert [each["tokens"] for each in found["requests"]] == [8] * 4
    assert all(len(each["ms"]) == REPEATS for each in found["requests"])
    updates = aws.of("update_function_configuration")
    starts = {each["Environment"]["Variables"].pop("PROVE_START") for each in updates}
    assert len(starts) == len(updates) == 4
    assert updates[0] == {
        "FunctionName": ALIAS.removesuffix(":live"),
        "MemorySize": 1769,
        "Environment": {"Variables": {"A": "b"}},
    }


def test_a_function_that_never_starts_is_an_error():
    """Else a table would show warm requests as starts."""
    with pytest.raises(ValueError, match="found: 0 starts of 4 invocations; allowed: 2 or more"):
        _endpoint(_Aws()).memory(1769, starts=2, pause=0)


def test_memory_beyond_the_accounts_is_a_result():
    """New accounts have 3,008 MB. Any other refusal is an error."""
    reason = {"Code": "ValidationException", "Message": "'MemorySize' must be <= 3008"}
    refused = ClientError({"Error": reason}, "UpdateFunctionConfiguration")
    found = _endpoint(_Aws(error=refused)).memory(3538, starts=2, pause=0)
    assert found == {"refused": "'MemorySize' must be <= 3008"}
    other = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Update")
    with pytest.raises(ClientError):
        _endpoint(_Aws(error=other)).memory(3538, starts=2, pause=0)


def test_restores_are_read_from_a_report_in_text():
    """Not the billed restore, which another field has."""
    assert _endpoint(_Aws(lambda _: TEXT)).restores() == {"restore_ms": [440.5] * 10}


def test_a_log_without_a_report_is_an_error():
    with pytest.raises(ValueError, match="must end with Lambda's report; found: no log"):
        _endpoint(_Aws(lambda _: "")).restores()


def test_provisioned_starts_are_in_the_functions_log():
    aws = _Aws()
    assert _endpoint(aws).provisioned() == {"init_ms": [321.5]}
    (asked,) = aws.of("filter_log_events")
    assert asked["logGroupName"] == "the-group"


def test_a_caller_that_is_not_allowed_is_a_result():
    """Everything else is measured without it; another status is an error."""
    transport = httpx2.MockTransport(lambda _: httpx2.Response(403))
    with httpx2.Client(transport=transport) as http:
        assert "none of [callers]" in _endpoint(_Aws()).callers(http)["refused"]
    transport = httpx2.MockTransport(lambda _: httpx2.Response(502, text="crashed"))
    with (
        httpx2.Client(transport=transport) as http,
        pytest.raises(ValueError, match="must answer with 200; found: crashed"),
    ):
        _endpoint(_Aws()).callers(http)


def test_searches_have_vectors_to_find():
    """They have the index's dimension and the model's space, and each its own key."""
    aws = _Aws()
    found = _endpoint(aws).search()
    assert found == {"vectors": VECTORS, "ms": [8.1] * REPEATS}
    (tagged,) = aws.of("tag_resource")
    assert tagged == {"resourceArn": INDEX, "tags": {"embedding-kit:vector-space": "a-space"}}
    vectors = [vector for put in aws.of("put_vectors") for vector in put["vectors"]]
    assert len({vector["key"] for vector in vectors}) == VECTORS
    assert {len(vector["data"]["float32"]) for vector in vectors} == {4}
    assert all(query["text"] for query in aws.of("/similar"))
