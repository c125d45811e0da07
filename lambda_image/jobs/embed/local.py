"""Runs a job in processes on this machine."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context, parent_process
from typing import Any

from embedder.core.artifact import load_artifacts
from jobs.command import run_all, show_progress
from jobs.embed.job import LAYOUT, Job, Shard
from jobs.embed.run import JobPlan, JobResult, finish_job, plan_job
from jobs.embed.worker import embed_shard, load_engine
from jobs.errors import BatchError
from jobs.steps import ItemOutcome, read_settings
from jobs.storage import open_folder


def run_job(settings: Mapping[str, Any], *, artifact: str, processes: int) -> JobResult:
    """Run a job, or continue it, with a compiled model; show its progress.

    `settings` are those of a `Job`, and `processes` is the number of shards at a time.
    """
    job = read_settings(Job, settings, name="A job")
    plan = plan_job(job, load_artifacts(artifact)[0].manifest)
    print(f"job {plan.id}: {len(plan.shards)} shards to {plan.folder}", file=sys.stderr)
    missing = LAYOUT.missing(plan.folder, plan.shards)
    if missing:
        show_progress(
            embed_shards(plan, missing, artifact, processes=min(processes, len(missing))),
            total=len(plan.shards),
            done=len(plan.shards) - len(missing),
            unit="shards",
            counts=("rows", "rejected"),
        )
    return finish_job(plan)


def embed_shards(
    plan: JobPlan, shards: Sequence[Shard], artifact: str, *, processes: int
) -> Iterator[ItemOutcome]:
    """Embed shards of a job, and yield the outcome of each as soon as it is done.

    Each process loads the model. If shards fail, the others are done first, and the error of one
    is raised. If a process was killed, a `BatchError` says so without waiting for others.
    """
    pool = ProcessPoolExecutor(
        processes,
        # Forked processes would share the threads and the locks of the storage library.
        mp_context=get_context("spawn"),
        initializer=_start,
        initargs=(plan.job, plan.folder, artifact),
    )
    try:
        yield from run_all(pool, _embed, shards)
    except BrokenExecutor as error:
        raise BatchError(
            "A process ended before its shard was done, perhaps for lack of memory. Start the job "
            "again to continue it, with fewer processes."
        ) from error


#: What a process of the pool does with a shard.
_work: Callable[[Shard], ItemOutcome]


def _start(job: Job, folder: str, artifact: str) -> None:
    # Ctrl-C reaches all processes; the parent decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    engine = load_engine(load_artifacts(artifact)[0])
    source, output = open_folder(job.source), open_folder(folder, create=True)
    global _work  # noqa: PLW0603 - an initializer can return nothing
    _work = partial(embed_shard, engine, source, output, job=job)


def _end_with_parent() -> None:
    """Wait for the end of the parent, which a killed parent cannot announce, and end.

    Otherwise a worker would wait for its next shard forever.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _embed(shard: Shard) -> ItemOutcome:
    return _work(shard)
