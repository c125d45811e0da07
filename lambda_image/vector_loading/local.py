"""Loads parts in threads on this machine, which wait for S3 Vectors most of the time."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from batch_embedding.storage import open_folder
from vector_loading.index_client import IndexClient
from vector_loading.load import LoadPlan, Part
from vector_loading.loading import Outcome, load_part
from vector_loading.pace import Pace

__all__ = ["load_parts"]


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

    failed: Exception | None = None
    pool = ThreadPoolExecutor(threads)
    try:
        for future in as_completed([pool.submit(load, part) for part in parts]):
            try:
                yield future.result()
            except Exception as error:
                failed = failed or error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if failed is not None:
        raise failed
