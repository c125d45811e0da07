"""Batch jobs on AWS: executions of the state machine that `[batch]` deploys.

Each run of a shard leaves an empty file in `_job/progress/` of the job's folder. Its name has the
counts, the duration and the function's memory, so the progress and the cost of a job of 2,000
shards need four requests, each for 1,000 names.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from embedding_client._aws import AwsError, aws_client, aws_errors
from embedding_client._executions import Execution, Executions

#: A child execution uses less than 64 MB, which is the least that is billed.
_EXPRESS_GB = 64 / 1024
#: Requests to S3 for a shard: the part and the record of its run; and, with the last step's, about
#: so many reads.
_S3_WRITES = 2
_S3_READS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPrices:
    """List prices in US dollars, in the first tier of a month, before any discount or free tier."""

    #: Lambda's duration on ARM, per GB-second.
    lambda_gb_second: float
    lambda_request: float
    #: Step Functions' EXPRESS executions, which are the children of the map.
    express_request: float
    express_gb_second: float
    #: S3's PUT and GET requests.
    s3_write: float
    s3_read: float
    region: str
    sources: tuple[str, ...]
    #: The month in which the prices were read.
    read: str


PRICES = BatchPrices(
    lambda_gb_second=0.0000133334,
    lambda_request=0.20 / 1_000_000,
    express_request=1.00 / 1_000_000,
    express_gb_second=0.06 / 3600,
    s3_write=0.005 / 1000,
    s3_read=0.0004 / 1000,
    region="us-east-1",
    sources=(
        "https://aws.amazon.com/lambda/pricing/",
        "https://aws.amazon.com/step-functions/pricing/",
        "https://aws.amazon.com/s3/pricing/",
    ),
    read="2026-11",
)


def estimated_cost(
    *, runs: int, seconds: float, gb_seconds: float, prices: BatchPrices = PRICES
) -> float:
    """Return US dollars for runs of shards.

    Not included: Plan and Finish, cold starts, runs that failed, logs, and storage.

    Args:
        runs: How many runs.
        seconds: Their duration in all.
        gb_seconds: The same, each run's times the function's memory.
        prices: List prices.
    """
    return (
        gb_seconds * prices.lambda_gb_second
        + seconds * _EXPRESS_GB * prices.express_gb_second
        + runs * (prices.lambda_request + prices.express_request)
        + runs * (_S3_WRITES * prices.s3_write + _S3_READS * prices.s3_read)
    )


_PARTS = "part-"
_RUNS = "_job/progress/"
_PART = re.compile(r"(part-\d+)\.parquet")
_RUN = re.compile(r"(part-\d+)_rows=(\d+)_rejected=(\d+)_tokens=(\d+)_ms=(\d+)_mb=(\d+)", re.ASCII)


class Run(NamedTuple):
    """A run of a shard on AWS."""

    part: str
    rows: int
    rejected: int
    tokens: int
    seconds: float
    memory_mb: int
    #: When it ended, to the second.
    ended: datetime


class Progress(NamedTuple):
    """How far a job is, with the shards of earlier executions."""

    #: Shards that have their vectors.
    shards: int
    #: Rows with a vector, and rows without one.
    rows: int
    rejected: int
    tokens: int
    #: Of the execution that was asked for; None until it has embedded a shard.
    rows_per_second: float | None
    #: None if that cannot be said yet.
    seconds_left: float | None
    #: An estimate in US dollars, for all runs of shards that have ended.
    cost: float


def listed_progress(
    client: Any, folder: str, *, shards: int, began: datetime, until: datetime
) -> Progress:
    """Read the progress of a job from S3.

    Args:
        client: botocore's client of S3.
        folder: The job's folder.
        shards: How many shards the job has.
        began: When the execution began with its shards.
        until: When it ended, or now.

    Raises:
        botocore.exceptions.ClientError: If the folder may not be listed.
    """
    runs = [run_of(name, ended) for name, ended in _names(client, folder, _RUNS)]
    parts = [found[1] for name, _ in _names(client, folder, _PARTS) if (found := _PART.match(name))]
    return progress_of(parts, runs, shards=shards, began=began, until=until)


def progress_of(
    parts: Iterable[str], runs: Iterable[Run], *, shards: int, began: datetime, until: datetime
) -> Progress:
    """Add up the runs.

    A run costs if its worker died before it wrote its part, and its rows do not count.
    """
    finished, runs = set(parts), list(runs)
    counted = {run.part: run for run in runs if run.part in finished}
    # S3 gives whole seconds.
    now = [run for run in counted.values() if run.ended >= began.replace(microsecond=0)]
    seconds = (until - began).total_seconds()
    moving = bool(now) and seconds > 0
    return Progress(
        shards=len(finished),
        rows=sum(run.rows for run in counted.values()),
        rejected=sum(run.rejected for run in counted.values()),
        tokens=sum(run.tokens for run in counted.values()),
        rows_per_second=sum(run.rows for run in now) / seconds if moving else None,
        seconds_left=seconds / len(now) * (shards - len(finished)) if moving else None,
        cost=estimated_cost(
            runs=len(runs),
            seconds=sum(run.seconds for run in runs),
            gb_seconds=sum(run.seconds * run.memory_mb / 1024 for run in runs),
        ),
    )


def run_of(name: str, ended: datetime) -> Run:
    """Read a run from the name of its file.

    Raises:
        ValueError: If it is not one.
    """
    found = _RUN.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is not the record of a shard")
    rows, rejected, tokens, milliseconds, memory = map(int, found.groups()[1:])
    return Run(found[1], rows, rejected, tokens, milliseconds / 1000, memory, ended)


def _names(client: Any, folder: str, prefix: str) -> Iterator[tuple[str, datetime]]:
    """Yield the names below a prefix of a job's folder, without their folders, with their times."""
    bucket, _, path = folder.removeprefix("s3://").partition("/")
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{path}/{prefix}"
    )
    for page in pages:
        for item in page.get("Contents", ()):
            yield item["Key"].rpartition("/")[2], item["LastModified"]


#: The state machine's first state.
_PLAN = "Plan"


class BatchJobs(Executions):
    """The batch jobs of one state machine, with their rows and costs."""

    def __init__(
        self, machine: str, *, output: str = "StateMachineArn", profile: str | None = None
    ) -> None:
        super().__init__(machine, output=output, profile=profile)
        self._folders: dict[str, str] = {}

    def progress(self, job: Execution) -> Progress | None:
        """Return the rows and the cost of a job, which AWS does not count; None before its plan.

        Raises:
            AwsError: If the caller may not read them.
        """
        if job.map_run is None:
            return None
        with aws_errors():
            return listed_progress(
                self._files,
                self._folder(job.name),
                shards=job.map_run["itemCounts"]["total"],
                began=job.map_run["startDate"],
                until=job.map_run.get("stopDate") or datetime.now(UTC),
            )

    @cached_property
    def _files(self) -> Any:
        return aws_client("s3", self._region, profile=self._profile)

    def _folder(self, name: str) -> str:
        """Return the job's folder, which the first step computes."""
        if name not in self._folders:
            asked = {"executionArn": self._arn(name)}
            events = self._call("get_execution_history", **asked)["events"]
            exits = (event.get("stateExitedEventDetails", {}) for event in events)
            plan = next((found for found in exits if found.get("name") == _PLAN), None)
            if plan is None:
                raise AwsError(f"{name} is not a batch job: it has no step {_PLAN}.")
            self._folders[name] = json.loads(plan["output"])["folder"]
        return self._folders[name]
