"""Executions of state machines in the emulated AWS; events of functions are answered here."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from jobs.errors import BatchError
from tests.tools.rehearsal.conftest import echo
from tools.local_endpoint.runtime import FunctionError
from tools.rehearsal.deploy.deployed_functions import FunctionServer, Invocation
from tools.rehearsal.deploy.emulator import Emulator

KILLED = '{"errorMessage": "signal: killed", "errorType": "ExitError"}'


@dataclass
class Jobs:
    """A deployed state machine, of which each execution is a job."""

    aws: Emulator
    machine: str
    #: The parts of a job; their next run ends as a killed process does.
    killed: set[object] = field(default_factory=set)
    #: Those with a next answer that is lost after the part is done.
    lost: set[object] = field(default_factory=set)
    #: The steps that have run.
    steps: list[str] = field(default_factory=list)

    def run(self, **job: Any) -> dict[str, Any]:
        """Start an execution and return its description in the end."""
        client, given = self.aws.client("stepfunctions"), json.dumps(job)
        arn = client.start_execution(stateMachineArn=self.machine, input=given)["executionArn"]
        end = time.monotonic() + 3600
        while time.monotonic() < end:
            found: dict[str, Any] = client.describe_execution(executionArn=arn)
            if found["status"] != "RUNNING":
                return found
            time.sleep(0.2)
        raise TimeoutError("the execution did not end")


@contextmanager
def answered(
    jobs: Jobs,
    function: FunctionServer,
    run: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    part_of: Callable[[dict[str, Any]], object],
) -> Iterator[None]:
    """Answer the function's events, with the credentials of its role and its errors."""

    def answer(invocation: Invocation) -> bytes:
        event = json.loads(invocation.event)
        jobs.steps.append(event["step"])
        part = part_of(event)
        if part in jobs.killed:
            raise FunctionError(KILLED)
        os.environ.update(invocation.credentials)
        try:
            result = run(event)
        except BatchError as error:
            told = {"errorMessage": str(error), "errorType": type(error).__name__}
            raise FunctionError(json.dumps(told)) from error
        if part in jobs.lost:
            jobs.lost.remove(part)
            raise FunctionError(KILLED)
        return json.dumps(result).encode()

    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patch.setenv(name, "")
        patch.setenv("AWS_REGION", jobs.aws.region)
        patch.setenv("AWS_ENDPOINT_URL", jobs.aws.url)
        function.serve = answer
        yield
        function.serve = echo
