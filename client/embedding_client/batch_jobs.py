"""Batch jobs on AWS: executions of the state machine that `[batch]` deploys."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import botocore.exceptions
import botocore.session

from embedding_client.batch_progress import Progress, listed_progress
from embedding_client.errors import ConfigurationError, CredentialsError, EmbeddingClientError

__all__ = ["BatchError", "BatchJobs", "JobStatus"]

_MACHINE = re.compile(r"arn:aws[\w-]*:states:(?P<region>[\w-]+):\d{12}:stateMachine:[\w-]+")
#: The characters that Step Functions allows in a name, and its longest name.
_NAME = re.compile(r"[\w-]{1,80}", re.ASCII)
_TIME = "%Y%m%d-%H%M%S"
#: The state machine's first state.
_PLAN = "Plan"


class BatchError(EmbeddingClientError):
    """A job cannot be started, found or changed."""


class JobStatus(NamedTuple):
    """A job and how far it is."""

    name: str
    #: `RUNNING`, `SUCCEEDED`, `FAILED`, `TIMED_OUT` or `ABORTED`.
    state: str
    started: datetime
    ended: datetime | None
    #: What the job was started with.
    settings: Mapping[str, Any]
    #: The numbers of shards; None until the job is planned.
    shards: int | None = None
    done: int = 0
    failed: int = 0
    #: Rows, rate and cost; None until the job is planned, or if `unknown` says why.
    progress: Progress | None = None
    unknown: str | None = None
    #: The result of a job that succeeded.
    result: Mapping[str, Any] | None = None
    #: Why the job failed.
    problem: str | None = None

    @property
    def finished(self) -> int:
        """The shards that have their vectors, those of earlier executions too."""
        return max(self.done, self.progress.shards if self.progress else 0)


class BatchJobs:
    """The jobs of one state machine.

    Args:
        machine: The ARN of the state machine.
        profile: An AWS profile.

    Raises:
        ConfigurationError: If the ARN is not one of a state machine, or there are no credentials.
    """

    def __init__(self, machine: str, *, profile: str | None = None) -> None:
        found = _MACHINE.fullmatch(machine)
        if found is None:
            raise ConfigurationError(
                "The state machine must be given by its ARN, which `scripts/deploy` prints as "
                f"StateMachineArn; found {machine!r}."
            )
        self._machine = machine
        try:
            self._session = botocore.session.Session(profile=profile)
            self._client = self._session.create_client("stepfunctions", region_name=found["region"])
        except botocore.exceptions.BotoCoreError as error:
            raise ConfigurationError(f"{error}.") from error
        self._region = found["region"]
        self._folders: dict[str, str] = {}

    def start(self, settings: Mapping[str, Any], *, name: str | None = None) -> str:
        """Start a job and return its name.

        Args:
            settings: Its settings, as `docs/batch.md` lists them.
            name: Its name; by default that of its input's folder, with the time.

        Raises:
            BatchError: If the name is not allowed or taken, or the job cannot be started.
        """
        name = name or _name_of(settings["source"])
        if not _NAME.fullmatch(name):
            raise BatchError(
                f"A job's name has up to 80 letters, digits, hyphens or _; found {name!r}."
            )
        self._call(
            "start_execution", stateMachineArn=self._machine, name=name, input=json.dumps(settings)
        )
        return name

    def resume(self, name: str) -> str:
        """Start a job with the settings of an earlier one, and return its name.

        Shards that are done are not embedded again.

        Raises:
            BatchError: If the earlier job does not exist, or is still running.
        """
        earlier = self.status(name)
        if earlier.state == "RUNNING":
            raise BatchError(f"The job {name} is still running.")
        return self.start(earlier.settings)

    def cancel(self, name: str) -> None:
        """Stop a job. Its finished shards stay.

        Raises:
            BatchError: If the job does not exist.
        """
        self._call("stop_execution", executionArn=self._arn(name), error="Canceled")

    def status(self, name: str) -> JobStatus:
        """Return how far a job is.

        Raises:
            BatchError: If the job does not exist.
        """
        found = self._call("describe_execution", executionArn=self._arn(name))
        counts: Mapping[str, int] = {}
        progress = unknown = None
        for run in self._call("list_map_runs", executionArn=found["executionArn"])["mapRuns"]:
            shards = self._call("describe_map_run", mapRunArn=run["mapRunArn"])
            counts = shards["itemCounts"]
            try:
                progress = self._progress(found["executionArn"], shards)
            except BatchError as error:
                unknown = str(error)
        problem = found.get("cause") or found.get("error")
        return JobStatus(
            name=name,
            state=found["status"],
            started=found["startDate"],
            ended=found.get("stopDate"),
            settings=json.loads(found["input"]),
            shards=counts.get("total"),
            done=counts.get("succeeded", 0),
            failed=sum(counts.get(kind, 0) for kind in ("failed", "timedOut", "aborted")),
            progress=progress,
            unknown=unknown,
            result=json.loads(found["output"]) if found.get("output") else None,
            problem=_message(problem) if problem else None,
        )

    def newest(self, count: int) -> Iterator[tuple[str, str, datetime]]:
        """Yield the names, states and start times of the newest jobs."""
        pages = self._client.get_paginator("list_executions").paginate(
            stateMachineArn=self._machine, PaginationConfig={"PageSize": min(count, 1000)}
        )
        with _errors():
            for item in islice((item for page in pages for item in page["executions"]), count):
                yield item["name"], item["status"], item["startDate"]

    def _arn(self, name: str) -> str:
        return f"{self._machine.replace(':stateMachine:', ':execution:')}:{name}"

    @cached_property
    def _files(self) -> Any:
        return self._session.create_client("s3", region_name=self._region)

    def _progress(self, execution: str, shards: Mapping[str, Any]) -> Progress:
        """Read the progress of a job whose shards have begun.

        Raises:
            BatchError: If the caller may not do that.
        """
        with _errors():
            return listed_progress(
                self._files,
                self._folder(execution),
                shards=shards["itemCounts"]["total"],
                began=shards["startDate"],
                until=shards.get("stopDate") or datetime.now(UTC),
            )

    def _folder(self, execution: str) -> str:
        """Return the job's folder, which the first step computes."""
        if execution not in self._folders:
            events = self._call("get_execution_history", executionArn=execution)["events"]
            exits = (event.get("stateExitedEventDetails", {}) for event in events)
            plan = next((found for found in exits if found.get("name") == _PLAN), None)
            if plan is None:
                raise BatchError(f"{execution} is not a batch job: it has no step {_PLAN}.")
            self._folders[execution] = json.loads(plan["output"])["folder"]
        return self._folders[execution]

    def _call(self, operation: str, **arguments: Any) -> Any:
        with _errors():
            return getattr(self._client, operation)(**arguments)


@contextmanager
def _errors() -> Iterator[None]:
    """Raise AWS's errors as the client's own."""
    try:
        yield
    except botocore.exceptions.ClientError as error:
        reason = error.response["Error"]
        raise BatchError(f"AWS refused: {reason.get('Message') or reason['Code']}") from error
    except botocore.exceptions.NoCredentialsError as error:
        raise CredentialsError(f"AWS cannot be reached: {error}.") from error
    except botocore.exceptions.BotoCoreError as error:
        raise BatchError(f"AWS cannot be reached: {error}.") from error


def _name_of(source: str) -> str:
    folder = re.sub(r"[^\w-]+", "-", source.rstrip("/").rpartition("/")[2], flags=re.ASCII)
    return f"{folder.strip('-')[:60] or 'job'}-{datetime.now(UTC).strftime(_TIME)}"


def _message(cause: str) -> str:
    """Return the message in the cause of a failure, which is JSON if a function failed."""
    try:
        return str(json.loads(cause)["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return cause
