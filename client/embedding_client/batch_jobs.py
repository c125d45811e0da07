"""Batch jobs on AWS: executions of the state machine that `[batch]` deploys."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import botocore.exceptions
import botocore.session

from embedding_client.errors import ConfigurationError, CredentialsError, EmbeddingClientError

__all__ = ["BatchError", "BatchJobs", "JobStatus"]

_MACHINE = re.compile(r"arn:aws[\w-]*:states:(?P<region>[\w-]+):\d{12}:stateMachine:[\w-]+")
#: The characters that Step Functions allows in a name, and its longest name.
_NAME = re.compile(r"[\w-]{1,80}", re.ASCII)
_TIME = "%Y%m%d-%H%M%S"


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
    #: The result of a job that succeeded.
    result: Mapping[str, Any] | None = None
    #: Why the job failed.
    problem: str | None = None


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
            session = botocore.session.Session(profile=profile)
            self._client = session.create_client("stepfunctions", region_name=found["region"])
        except botocore.exceptions.BotoCoreError as error:
            raise ConfigurationError(f"{error}.") from error

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
        for run in self._call("list_map_runs", executionArn=found["executionArn"])["mapRuns"]:
            counts = self._call("describe_map_run", mapRunArn=run["mapRunArn"])["itemCounts"]
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
            result=json.loads(found["output"]) if found.get("output") else None,
            problem=_message(problem) if problem else None,
        )

    def newest(self, count: int) -> Iterator[tuple[str, str, datetime]]:
        """Yield the names, states and start times of the newest jobs."""
        pages = self._client.get_paginator("list_executions").paginate(
            stateMachineArn=self._machine, PaginationConfig={"PageSize": min(count, 1000)}
        )
        try:
            for item in islice((item for page in pages for item in page["executions"]), count):
                yield item["name"], item["status"], item["startDate"]
        except botocore.exceptions.ClientError as error:
            raise _problem(error) from error
        except botocore.exceptions.BotoCoreError as error:
            raise _unavailable(error) from error

    def _arn(self, name: str) -> str:
        return f"{self._machine.replace(':stateMachine:', ':execution:')}:{name}"

    def _call(self, operation: str, **arguments: Any) -> Any:
        try:
            return getattr(self._client, operation)(**arguments)
        except botocore.exceptions.ClientError as error:
            raise _problem(error) from error
        except botocore.exceptions.BotoCoreError as error:
            raise _unavailable(error) from error


def _name_of(source: str) -> str:
    folder = re.sub(r"[^\w-]+", "-", source.rstrip("/").rpartition("/")[2], flags=re.ASCII)
    return f"{folder.strip('-')[:60] or 'job'}-{datetime.now(UTC).strftime(_TIME)}"


def _message(cause: str) -> str:
    """Return the message in the cause of a failure, which is JSON if a function failed."""
    try:
        return str(json.loads(cause)["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return cause


def _problem(error: botocore.exceptions.ClientError) -> BatchError:
    reason = error.response["Error"]
    return BatchError(f"AWS refused: {reason.get('Message') or reason['Code']}")


def _unavailable(error: botocore.exceptions.BotoCoreError) -> EmbeddingClientError:
    kind = (
        CredentialsError
        if isinstance(error, botocore.exceptions.NoCredentialsError)
        else BatchError
    )
    return kind(f"AWS cannot be reached: {error}.")
