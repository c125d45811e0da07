"""Batch jobs on AWS: executions of the state machine that `[batch]` deploys."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from embedding_client.batch.progress import Progress, listed_progress
from embedding_client.executions import BatchError, Executions, aws_errors

__all__ = ["BatchError", "BatchJobs", "JobStatus"]

#: The state machine's first state.
_PLAN = "Plan"


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


class BatchJobs(Executions):
    """The jobs of one state machine.

    Args:
        machine: The ARN of the state machine.
        profile: An AWS profile.

    Raises:
        ConfigurationError: If the ARN is not one of a state machine, or there are no credentials.
    """

    def __init__(self, machine: str, *, profile: str | None = None) -> None:
        super().__init__(machine, output="StateMachineArn", profile=profile)
        self._folders: dict[str, str] = {}

    def status(self, name: str) -> JobStatus:
        """Return how far a job is, with its rows and cost.

        Raises:
            BatchError: If the job does not exist.
        """
        found = self.execution(name)
        progress = unknown = None
        if found.map_run is not None:
            try:
                progress = self._progress(found.arn, found.map_run)
            except BatchError as error:
                unknown = str(error)
        return JobStatus(
            name=name,
            state=found.state,
            started=found.started,
            ended=found.ended,
            settings=found.settings,
            shards=found.items,
            done=found.done,
            failed=found.failed,
            progress=progress,
            unknown=unknown,
            result=found.result,
            problem=found.problem,
        )

    @cached_property
    def _files(self) -> Any:
        return self._session.create_client("s3", region_name=self._region)

    def _progress(self, execution: str, shards: Mapping[str, Any]) -> Progress:
        """Read the progress of a job whose shards have begun.

        Raises:
            BatchError: If the caller may not do that.
        """
        with aws_errors():
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
