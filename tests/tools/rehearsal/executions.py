"""Executions of state machines in the emulated AWS; events of functions are answered here."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

from jobs.errors import BatchError
from tools.local_endpoint.runtime import FunctionError
from tools.rehearsal.deploy.deployed_functions import Invocation
from tools.rehearsal.deploy.emulator import Emulator

KILLED = '{"errorMessage": "signal: killed", "errorType": "ExitError"}'


def execute(aws: Emulator, machine: str, given: dict[str, Any]) -> dict[str, Any]:
    """Start an execution and return its description in the end."""
    client = aws.client("stepfunctions")
    arn = client.start_execution(stateMachineArn=machine, input=json.dumps(given))["executionArn"]
    end = time.monotonic() + 3600
    while time.monotonic() < end:
        found: dict[str, Any] = client.describe_execution(executionArn=arn)
        if found["status"] != "RUNNING":
            return found
        time.sleep(0.2)
    raise TimeoutError("the execution did not end")


def run_step(
    run: Callable[[dict[str, Any]], dict[str, Any]], invocation: Invocation, region: str
) -> dict[str, Any]:
    """Run a step with the credentials of the function's role, and its errors as the function's."""
    for name, value in {**invocation.credentials, "AWS_REGION": region}.items():
        os.environ[name] = value
    try:
        return run(json.loads(invocation.event))
    except BatchError as error:
        told = {"errorMessage": str(error), "errorType": type(error).__name__}
        raise FunctionError(json.dumps(told)) from error
