"""Runs the shards of a job in processes on this machine."""

import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from batch_embedding.errors import BatchError
from batch_embedding.job import Job, Shard
from batch_embedding.run import Plan
from batch_embedding.storage import Folder, open_folder
from batch_embedding.worker import Outcome, embed_shard
from embedder.artifact import load_artifact
from embedder.engine import Engine

__all__ = ["embed_shards"]


def embed_shards(
    plan: Plan, shards: Sequence[Shard], artifact: str, *, processes: int
) -> Iterator[Outcome]:
    """Embed shards of a job, and yield the outcome of each as soon as it is done.

    A shard that fails does not stop the others. The first failure is raised after them.

    Args:
        plan: The job.
        shards: Those to embed.
        artifact: The folder of the model.
        processes: How many shards are embedded at a time. Each process loads the model.

    Raises:
        BatchError: If a shard failed, or a process was killed.
    """
    failed: Exception | None = None
    pool = ProcessPoolExecutor(
        processes,
        # Forked processes would share the threads and the locks of the storage library.
        mp_context=get_context("spawn"),
        initializer=_start,
        initargs=(plan.job, plan.folder, artifact),
    )
    try:
        for future in as_completed([pool.submit(_embed, shard) for shard in shards]):
            try:
                yield future.result()
            except BrokenProcessPool as error:
                raise BatchError(
                    "A process ended before its shard was done, perhaps for lack of memory. Start "
                    "the job again to continue it, with fewer processes."
                ) from error
            except Exception as error:
                failed = failed or error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if failed is not None:
        raise failed


class _Worker:
    """What a process keeps between shards."""

    def __init__(self, job: Job, folder: str, artifact: str) -> None:
        self.job = job
        self.engine = Engine.load(load_artifact(artifact))
        self.source: Folder = open_folder(job.source)
        self.output: Folder = open_folder(folder, create=True)


_worker: _Worker


def _start(job: Job, folder: str, artifact: str) -> None:
    # Ctrl-C reaches all processes; the parent decides what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _worker  # noqa: PLW0603 - an initializer can return nothing
    _worker = _Worker(job, folder, artifact)


def _embed(shard: Shard) -> Outcome:
    return embed_shard(_worker.engine, _worker.source, _worker.output, shard, _worker.job)
