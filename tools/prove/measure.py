"""Measures a deployed endpoint: its starts, requests by length, and searches.

A function is measured through Lambda's Invoke, with the times that Lambda reports at the end of the
log; the time that a caller waits, through the Function URL. Only `$LATEST` is changed, which no
caller reaches.
"""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx2
from botocore.exceptions import ClientError
from botocore.session import Session

from embedder.core.s3_vectors import SPACE_TAG
from embedding_client import invocation_event
from operations.deployed import status_and_outputs
from operations.vector_store import find_store
from stacks.environment import EnvironmentSettings
from stacks.names import endpoint_stack_name
from tools.prove.texts import Texts

#: Megabytes of memory: one virtual CPU, and two.
SIZES = (1769, 3538)
#: Tokens of a text, besides the model's limit.
LENGTHS = (8, 32, 128, 512)
#: Requests of each length, and searches.
REPEATS = 10
#: Vectors in the index while it is searched.
VECTORS = 1000
#: Texts of one request, and vectors of one write.
_BATCH = 50
#: Invocations at a time: each needs another execution environment.
_AT_A_TIME = 10
#: The fields of a report in text, by the names that they have in JSON.
_FIELDS = {
    "Duration": "durationMs",
    "Init Duration": "initDurationMs",
    "Restore Duration": "restoreDurationMs",
    "Max Memory Used": "maxMemoryUsedMB",
}

Measured = dict[str, Any]


def find_endpoint(session: Session, environment: EnvironmentSettings) -> "Endpoint":
    """Return the deployed endpoint, from the outputs of its stack."""
    _, outputs = status_and_outputs(session, environment, endpoint_stack_name(environment.name))
    return Endpoint(session, environment, url=outputs["Url"], alias=outputs["AliasArn"])


@dataclass(frozen=True)
class Endpoint:
    """A deployed endpoint. Each method measures, and returns values that JSON can hold."""

    session: Session
    environment: EnvironmentSettings
    url: str
    alias: str

    def lengths(self) -> list[int]:
        """Return the tokens of the texts to measure, up to the model's limit."""
        _, info = self._invoke(self.alias, "/info", None)
        limit = int(info["max_input_length"])
        return [*(length for length in LENGTHS if length < limit), limit]

    def memory(self, size: int, *, starts: int, pause: float) -> Measured:
        """Measure cold starts and requests of `$LATEST` with a size of memory.

        A changed variable makes Lambda start another execution environment.
        """
        client, name = self._lambda, self.alias.rpartition(":")[0]
        variables = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        texts, measured = Texts(size), []
        for _ in range(2 * starts):
            changed = {"Variables": variables | {"PROVE_START": str(time.time_ns())}}
            try:
                client.update_function_configuration(
                    FunctionName=name, MemorySize=size, Environment=changed
                )
            except ClientError as error:
                if "MemorySize" not in str(error):
                    raise
                return {"refused": error.response["Error"]["Message"]}
            client.get_waiter("function_updated").wait(
                FunctionName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 600}
            )
            metrics, _ = self._invoke(name, "/", _body(texts, LENGTHS[0]))
            # Lambda may have started an environment in advance, and then reports no start.
            if "initDurationMs" in metrics:
                measured.append(metrics)
                done = f"{len(measured)} of {starts} ({len(measured) / starts:.0%})"
                print(f"  start {done}: {metrics['initDurationMs']:.0f} ms", flush=True)
            if len(measured) == starts:
                break
            time.sleep(pause)
        else:
            raise ValueError(
                f"a changed function must start with its next invocation; found: {len(measured)} "
                f"starts of {2 * starts} invocations; allowed: {starts} or more"
            )
        return {
            "init_ms": [metrics["initDurationMs"] for metrics in measured],
            "first_ms": [metrics["durationMs"] for metrics in measured],
            "requests": [self._requests(name, texts, length) for length in self.lengths()],
        }

    def callers(self, http: httpx2.Client) -> Measured:
        """Measure the milliseconds in which the Function URL answers a caller."""
        texts, measured, json_type = Texts(0), [], {"content-type": "application/json"}
        for length in self.lengths():
            elapsed, tokens = [], []
            for _ in range(1 + REPEATS):
                began = time.perf_counter()
                answer = http.post(self.url, content=_body(texts, length), headers=json_type)
                elapsed.append(1000 * (time.perf_counter() - began))
                if answer.status_code == 403:
                    return {"refused": "403: this identity is none of [callers]"}
                if answer.status_code != 200:
                    raise ValueError(_wrong(self.url, answer.text))
                tokens.append(answer.json()["tokens"])
            # The first one of a length may open a connection, or meet a cold start.
            measured.append({"tokens": max(tokens), "ms": elapsed[1:]})
        return {"requests": measured}

    def restores(self) -> Measured:
        """Measure restores of SnapStart: many requests at a time need as many environments."""
        texts = Texts(0)
        bodies = [_body(texts, LENGTHS[0]) for _ in range(_AT_A_TIME)]
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            all_metrics = pool.map(lambda body: self._invoke(self.alias, "/", body)[0], bodies)
            restores = [metrics for metrics in all_metrics if "restoreDurationMs" in metrics]
        return {"restore_ms": [metrics["restoreDurationMs"] for metrics in restores]}

    def provisioned(self) -> Measured:
        """Read the initializations of provisioned environments from the function's log."""
        configuration = self._lambda.get_function_configuration(FunctionName=self.alias)
        pages = self._client("logs").get_paginator("filter_log_events")
        answers = pages.paginate(
            logGroupName=configuration["LoggingConfig"]["LogGroup"],
            filterPattern='{ $.type = "platform.initReport" && '
            '$.record.initializationType = "provisioned-concurrency" }',
        )
        records = [json.loads(event["message"]) for page in answers for event in page["events"]]
        return {"init_ms": [report["record"]["metrics"]["durationMs"] for report in records]}

    def search(self) -> Measured:
        """Write vectors of random words to the index, and measure searches in it."""
        store = find_store(self.session, self.environment)
        if store is None or not store.indexes:
            raise ValueError(f"{self.environment.name} must have an index; found: none")
        index, client = {"indexArn": store.indexes[0]}, self._client("s3vectors")
        size, texts = client.get_index(**index)["index"]["dimension"], Texts(1)
        for start in range(0, VECTORS, _BATCH):
            batch = [texts.text(32) for _ in range(_BATCH)]
            body = json.dumps({"texts": batch, "size": size}).encode()
            _, answer = self._invoke(self.alias, "/", body)
            if start == 0:
                tags = {SPACE_TAG: answer["vector_space"]}
                client.tag_resource(resourceArn=store.indexes[0], tags=tags)
            vectors = [
                {"key": str(start + n), "data": {"float32": vector}, "metadata": {"text": text}}
                for n, (text, vector) in enumerate(zip(batch, answer["embeddings"], strict=True))
            ]
            client.put_vectors(**index, vectors=vectors)
        queries = [texts.text(LENGTHS[0]) for _ in range(1 + REPEATS)]
        searches = [
            self._invoke(self.alias, "/similar", json.dumps({"text": query}).encode())[0]
            for query in queries
        ]
        return {"vectors": VECTORS, "ms": [metrics["durationMs"] for metrics in searches[1:]]}

    def _requests(self, function: str, texts: Texts, length: int) -> Measured:
        answers = [self._invoke(function, "/", _body(texts, length)) for _ in range(REPEATS)]
        return {
            "tokens": max(answer["tokens"] for _, answer in answers),
            "ms": [metrics["durationMs"] for metrics, _ in answers],
            "memory_mb": max(metrics["maxMemoryUsedMB"] for metrics, _ in answers),
        }

    @cached_property
    def _lambda(self) -> Any:
        return self._client("lambda")

    def _client(self, service: str) -> Any:
        return self.session.create_client(service, region_name=self.environment.region)

    def _invoke(self, function: str, path: str, body: bytes | None) -> tuple[Measured, Any]:
        """Send a request by Invoke; return Lambda's metrics of it, and the answer."""
        event = invocation_event("POST" if body else "GET", path, body)
        answer = self._lambda.invoke(FunctionName=function, LogType="Tail", Payload=event)
        result = json.loads(answer["Payload"].read())
        if "FunctionError" in answer or result["statusCode"] != 200:
            raise ValueError(_wrong(function, json.dumps(result)))
        log = base64.b64decode(answer.get("LogResult", "")).decode(errors="replace")
        return _report(log), json.loads(result["body"])


def _report(log: str) -> Measured:
    """Return the metrics of the last report in a log of JSON or of text.

    https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html#platform-report
    """
    for line in reversed(log.splitlines()):
        if '"platform.report"' in line:
            return dict(json.loads(line)["record"]["metrics"])
        if line.startswith("REPORT "):
            fields = dict(field.split(": ", 1) for field in line.split("\t") if ": " in field)
            return {
                name: float(fields[field].split()[0])
                for field, name in _FIELDS.items()
                if field in fields
            }
    raise ValueError(f"the log must end with Lambda's report; found: {log[-300:] or 'no log'}")


def _body(texts: Texts, tokens: int) -> bytes:
    # A word may be more than one token.
    return json.dumps({"texts": [texts.text(tokens)], "truncate": True}).encode()


def _wrong(place: str, found: str) -> str:
    return f"{place} must answer with 200; found: {found[:500]}"
