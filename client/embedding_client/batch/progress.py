"""Adds up how far a job is, from the names of the files in its folder.

Each run of a shard leaves an empty file in `_job/progress/` whose name has the counts, the duration
and the function's memory. So a job of 2,000 shards needs four requests, each for 1,000 names.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from embedding_client.batch.prices import estimated_cost

__all__ = ["Progress", "Run", "listed_progress", "progress_of", "run_of"]

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

    A run whose worker died in front of its part's write costs, and its rows do not count.
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
