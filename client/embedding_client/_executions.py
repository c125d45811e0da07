"""Executions of a state machine of Step Functions that works through a Distributed Map."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from embedding_client._aws import AwsError, aws_client, aws_errors
from embedding_client._errors import ConfigurationError

_MACHINE = re.compile(r"arn:aws[\w-]*:states:(?P<region>[\w-]+):\d{12}:stateMachine:[\w-]+")
#: The characters that Step Functions allows in a name, and its longest name.
_NAME = re.compile(r"[\w-]{1,80}", re.ASCII)


class Execution(NamedTuple):
    """An execution and how far it is."""

    name: str
    #: `RUNNING`, `SUCCEEDED`, `FAILED`, `TIMED_OUT` or `ABORTED`.
    state: str
    started: datetime
    ended: datetime | None
    #: What it was started with.
    settings: Mapping[str, Any]
    #: The map's description by AWS; None until the items are planned.
    map_run: Mapping[str, Any] | None
    #: The number of items, None until they are planned, and of those that are done and that failed.
    items: int | None
    done: int
    failed: int
    #: The result of an execution that succeeded.
    result: Mapping[str, Any] | None
    #: Why it failed.
    problem: str | None


class Executions:
    """The executions of one state machine. Its methods raise `AwsError` if AWS refuses."""

    def __init__(self, machine: str, *, output: str, profile: str | None = None) -> None:
        found = _MACHINE.fullmatch(machine)
        if found is None:
            raise ConfigurationError(
                "The state machine must be given by its ARN, which `scripts/deploy` prints as "
                f"{output}; found {machine!r}."
            )
        self._machine, self._region, self._profile = machine, found["region"], profile
        self._client = aws_client("stepfunctions", self._region, profile=profile)

    def start(self, settings: Mapping[str, Any], *, name: str | None = None) -> str:
        """Start an execution and return its name, by default the folder's with the time."""
        name = name or _name_of(settings["source"])
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"A job's name has up to 80 letters, digits, hyphens or _; found {name!r}."
            )
        self._call(
            "start_execution", stateMachineArn=self._machine, name=name, input=json.dumps(settings)
        )
        return name

    def resume(self, name: str) -> str:
        """Start an execution with the settings of one that ended. What is done stays."""
        earlier = self.status(name)
        if earlier.state == "RUNNING":
            raise AwsError(f"The job {name} is still running.")
        return self.start(earlier.settings)

    def cancel(self, name: str) -> None:
        """Stop an execution. Its finished items stay."""
        self._call("stop_execution", executionArn=self._arn(name), error="Canceled")

    def status(self, name: str) -> Execution:
        """Return how far an execution is."""
        found = self._call("describe_execution", executionArn=self._arn(name))
        map_run = None
        for run in self._call("list_map_runs", executionArn=found["executionArn"])["mapRuns"]:
            map_run = self._call("describe_map_run", mapRunArn=run["mapRunArn"])
        counts = map_run["itemCounts"] if map_run else {}
        problem = found.get("cause") or found.get("error")
        return Execution(
            name=name,
            state=found["status"],
            started=found["startDate"],
            ended=found.get("stopDate"),
            settings=json.loads(found["input"]),
            map_run=map_run,
            items=counts.get("total"),
            done=counts.get("succeeded", 0),
            failed=sum(counts.get(kind, 0) for kind in ("failed", "timedOut", "aborted")),
            result=json.loads(found["output"]) if found.get("output") else None,
            problem=_message(problem) if problem else None,
        )

    def newest(self, count: int) -> Iterator[tuple[str, str, datetime]]:
        """Yield the names, states and start times of the newest executions."""
        pages = self._client.get_paginator("list_executions").paginate(
            stateMachineArn=self._machine, PaginationConfig={"PageSize": min(count, 1000)}
        )
        with aws_errors():
            for item in islice((item for page in pages for item in page["executions"]), count):
                yield item["name"], item["status"], item["startDate"]

    def _arn(self, name: str) -> str:
        return f"{self._machine.replace(':stateMachine:', ':execution:')}:{name}"

    def _call(self, operation: str, **arguments: Any) -> Any:
        with aws_errors():
            return getattr(self._client, operation)(**arguments)


def _name_of(source: str) -> str:
    folder = re.sub(r"[^\w-]+", "-", source.rstrip("/").rpartition("/")[2], flags=re.ASCII)
    return f"{folder.strip('-')[:60] or 'job'}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _message(cause: str) -> str:
    """Return the message in the cause of a failure, which is JSON if a function failed."""
    try:
        return str(json.loads(cause)["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return cause
