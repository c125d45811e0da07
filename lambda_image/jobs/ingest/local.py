"""Runs a load in threads on this machine, which wait for S3 Vectors most of the time."""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tqdm import tqdm

from jobs.embed.pool import run_all
from jobs.embed.storage import open_folder
from jobs.ingest.index_client import IndexClient
from jobs.ingest.load import Load, LoadPlan, Part
from jobs.ingest.loading import Outcome, load_part
from jobs.ingest.pace import Pace
from jobs.ingest.run import Result, finish_load, missing_parts, plan_load

__all__ = ["load_parts", "run_load"]


def run_load(options: argparse.Namespace) -> Result:
    """Run a load, or continue it; show its progress.

    Args:
        options: The arguments of `embedding-kit jobs.ingest`.

    Raises:
        BatchError: If the load cannot be planned, or a part failed.
    """
    load = Load(
        source=options.source,
        index=options.index,
        metadata=None if options.metadata is None else tuple(options.metadata),
        max_rejected_percent=options.max_rejected_percent,
    )
    index = IndexClient(load.index, connections=options.threads)
    plan = plan_load(load, index)
    missing = missing_parts(plan)
    done = len(plan.parts) - len(missing)
    pace = Pace(options.vectors_per_second)
    with tqdm(total=len(plan.parts), initial=done, unit=" parts", disable=None) as bar:
        loaded = 0
        for outcome in load_parts(plan, missing, index=index, pace=pace, threads=options.threads):
            loaded += outcome.counts.loaded
            bar.set_postfix(vectors=loaded, refresh=False)
            bar.update()
    return finish_load(plan, index)


def load_parts(
    plan: LoadPlan, parts: Sequence[Part], *, index: IndexClient, pace: Pace, threads: int
) -> Iterator[Outcome]:
    """Load parts, and yield the outcome of each as soon as it is done.

    A part that fails does not stop the others. The first failure is raised after them.

    Args:
        plan: The load.
        parts: Those to load.
        index: The index.
        pace: The rate of all threads together.
        threads: How many parts are loaded at a time.

    Raises:
        BatchError: If a part failed.
    """
    source, records = open_folder(plan.job), open_folder(plan.folder)

    def load(part: Part) -> Outcome:
        return load_part(source, records, plan, part, index=index, pace=pace)

    return run_all(ThreadPoolExecutor(threads), load, parts)
