"""Jobs on AWS: executions of a state machine that works through a Distributed Map.

Each run of a shard of a batch job leaves an empty file in `_job/progress/` of the job's folder. Its
name has the counts, the duration and the function's memory, so the progress and the cost of a job
of 2,000 shards need four requests, each for 1,000 names.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from embedding_client._aws import aws_client, aws_errors
from embedding_client.errors import AwsError, ConfigurationError

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
    #: Its input: an object, unless another program started it with other JSON.
    settings: Any
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
    """The executions of one state machine. Its methods raise `AwsError` if AWS refuses.

    Args:
        machine: The ARN of the state machine.
        output: The output of the stack that has it, for the message about another ARN.
        profile: A profile of AWS's configuration.
    """

    def __init__(
        self, machine: str, *, output: str = "StateMachineArn", profile: str | None = None
    ) -> None:
        match = _MACHINE.fullmatch(machine)
        if match is None:
            raise ConfigurationError(
                "The state machine must be given by its ARN, which `scripts/deploy` prints as "
                f"{output}; found {machine!r}."
            )
        self._machine, self._region, self._profile = machine, match["region"], profile
        self._client = aws_client("stepfunctions", self._region, profile=profile)

    def start(self, settings: Any, *, name: str | None = None) -> str:
        """Start an execution and return its name, by default the folder's with the time."""
        name = name or _name_of(settings)
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"A job's name has up to 80 letters, digits, hyphens or _; found {name!r}."
            )
        self._call(
            "start_execution", stateMachineArn=self._machine, name=name, input=json.dumps(settings)
        )
        return name

    def resume(self, name: str) -> str:
        """Start an execution with the settings of one that ended. Finished items stay."""
        earlier = self.status(name)
        if earlier.state == "RUNNING":
            raise AwsError(f"The job {name} is still running.")
        return self.start(earlier.settings)

    def cancel(self, name: str) -> None:
        """Stop an execution. Its finished items stay."""
        self._call("stop_execution", executionArn=self._arn(name), error="Canceled")

    def status(self, name: str) -> Execution:
        """Return how far an execution is."""
        execution = self._call("describe_execution", executionArn=self._arn(name))
        map_run = None
        for run in self._call("list_map_runs", executionArn=execution["executionArn"])["mapRuns"]:
            map_run = self._call("describe_map_run", mapRunArn=run["mapRunArn"])
        counts = map_run["itemCounts"] if map_run else {}
        problem = execution.get("cause") or execution.get("error")
        return Execution(
            name=name,
            state=execution["status"],
            started=execution["startDate"],
            ended=execution.get("stopDate"),
            settings=json.loads(execution["input"]),
            map_run=map_run,
            items=counts.get("total"),
            done=counts.get("succeeded", 0),
            failed=sum(counts.get(ending, 0) for ending in ("failed", "timedOut", "aborted")),
            result=json.loads(execution["output"]) if execution.get("output") else None,
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


def _name_of(settings: Any) -> str:
    # Other programs may leave the folder to the state machine.
    source = settings.get("source") if isinstance(settings, Mapping) else None
    name = str(source or "").rstrip("/").rpartition("/")[2]
    folder = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII)
    return f"{folder.strip('-')[:60] or 'job'}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _message(cause: str) -> str:
    """Return the message in the cause of a failure, which is JSON if a function failed."""
    try:
        return str(json.loads(cause)["errorMessage"])
    except (ValueError, KeyError, TypeError):
        return cause


#: A child execution uses less than 64 MB, which is the least that is billed.
_EXPRESS_GB = 64 / 1024
#: Requests to S3 for a shard: the part and the record of its run; and, with the last step's, about
#: so many reads.
_S3_WRITES = 2
_S3_READS = 10


#: List prices in US dollars, in the first tier of a month, before any discount or free tier.
#: https://aws.amazon.com/lambda/pricing/ https://aws.amazon.com/step-functions/pricing/
#: https://aws.amazon.com/s3/pricing/
PRICES = {
    "lambda_duration": 0.0000133334,  # on ARM, per GB-second
    "lambda_requests": 0.20 / 1_000_000,
    # EXPRESS executions, which are the children of the map.
    "express_requests": 1.00 / 1_000_000,
    "express_duration": 0.06 / 3600,
    "storage_write": 0.005 / 1000,
    "storage_read": 0.0004 / 1000,
}
#: Their region, and the month in which they were read.
PRICED = "us-east-1, 2026-11"


def estimated_cost(*, runs: int, seconds: float, gb_seconds: float) -> float:
    """Return US dollars for runs of shards, without cold starts, failed runs, logs and storage."""
    amounts = {
        "lambda_duration": gb_seconds,
        "lambda_requests": runs,
        "express_requests": runs,
        "express_duration": seconds * _EXPRESS_GB,
        "storage_write": runs * _S3_WRITES,
        "storage_read": runs * _S3_READS,
    }
    return sum(PRICES[name] * amount for name, amount in amounts.items())


_PART_PREFIX = "part-"
_RUN_PREFIX = "_job/progress/"
_PART_NAME = re.compile(r"(part-\d+)\.parquet")
_RUN_NAME = re.compile(
    r"(part-\d+)_rows=(\d+)_rejected=(\d+)_tokens=(\d+)_ms=(\d+)_mb=(\d+)", re.ASCII
)


class ShardRun(NamedTuple):
    """A run of a shard on AWS."""

    #: Name of the shard's part.
    shard: str
    rows: int
    rejected: int
    tokens: int
    seconds: float
    memory_mb: int
    #: When it ended, to the second.
    ended: datetime


class Progress(NamedTuple):
    """Progress and cost of a job, with the shards of earlier executions."""

    #: Shards that have their vectors.
    shards: int
    #: Rows with a vector, and rows without one.
    rows: int
    rejected: int
    tokens: int
    #: Speed of the execution that was asked for; None until it has embedded a shard.
    rows_per_second: float | None
    #: None if that cannot be said yet.
    seconds_left: float | None
    #: An estimate in US dollars, for all runs of shards that have ended.
    cost: float


def job_progress(
    parts: Iterable[str], runs: Iterable[ShardRun], *, shards: int, began: datetime, until: datetime
) -> Progress:
    """Add up the runs.

    A run costs if its worker died before it wrote its part, and its rows do not count.
    """
    finished, runs = set(parts), list(runs)
    counted = {run.shard: run for run in runs if run.shard in finished}
    # S3 gives whole seconds.
    recent = [run for run in counted.values() if run.ended >= began.replace(microsecond=0)]
    seconds = (until - began).total_seconds()
    moving = bool(recent) and seconds > 0
    return Progress(
        shards=len(finished),
        rows=sum(run.rows for run in counted.values()),
        rejected=sum(run.rejected for run in counted.values()),
        tokens=sum(run.tokens for run in counted.values()),
        rows_per_second=sum(run.rows for run in recent) / seconds if moving else None,
        seconds_left=seconds / len(recent) * (shards - len(finished)) if moving else None,
        cost=estimated_cost(
            runs=len(runs),
            seconds=sum(run.seconds for run in runs),
            gb_seconds=sum(run.seconds * run.memory_mb / 1024 for run in runs),
        ),
    )


def parse_run(name: str, ended: datetime) -> ShardRun:
    """Read a run from the name of its file."""
    match = _RUN_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not the record of a shard")
    rows, rejected, tokens, milliseconds, memory = map(int, match.groups()[1:])
    return ShardRun(match[1], rows, rejected, tokens, milliseconds / 1000, memory, ended)


def _names(client: Any, folder: str, prefix: str) -> Iterator[tuple[str, datetime]]:
    """Yield the names below a prefix of a job's folder, without their folders, with their times."""
    bucket, _, path = folder.removeprefix("s3://").partition("/")
    paginator = client.get_paginator("list_objects_v2")
    for page in paginator.paginate(Bucket=bucket, Prefix=f"{path}/{prefix}"):
        for item in page.get("Contents", ()):
            yield item["Key"].rpartition("/")[2], item["LastModified"]


#: The state machine's first state.
_PLAN = "Plan"


class BatchJobs(Executions):
    """The batch jobs of one state machine, with their rows and costs."""

    def progress(self, job: Execution) -> Progress | None:
        """Return the rows and the cost of a job, which AWS does not count; None before its plan."""
        if job.map_run is None:
            return None
        with aws_errors():
            folder = self._folder(job.name)
            runs = [
                parse_run(name, ended) for name, ended in _names(self._files, folder, _RUN_PREFIX)
            ]
            names = (name for name, _ in _names(self._files, folder, _PART_PREFIX))
            parts = [match[1] for name in names if (match := _PART_NAME.match(name))]
        return job_progress(
            parts,
            runs,
            shards=job.map_run["itemCounts"]["total"],
            began=job.map_run["startDate"],
            until=job.map_run.get("stopDate") or datetime.now(UTC),
        )

    @cached_property
    def _files(self) -> Any:
        return aws_client("s3", self._region, profile=self._profile)

    @cached_property
    def _folders(self) -> dict[str, str]:
        """The folders of the jobs that were looked at, by name."""
        return {}

    def _folder(self, name: str) -> str:
        """Return the job's folder, which the first step computes."""
        if name not in self._folders:
            events = self._call("get_execution_history", executionArn=self._arn(name))["events"]
            exits = (event.get("stateExitedEventDetails", {}) for event in events)
            plan = next((state for state in exits if state.get("name") == _PLAN), None)
            if plan is None:
                raise AwsError(f"{name} is not a batch job: it has no step {_PLAN}.")
            self._folders[name] = json.loads(plan["output"])["folder"]
        return self._folders[name]
