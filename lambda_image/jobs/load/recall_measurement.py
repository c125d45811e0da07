"""Measures how many of the nearest vectors an index finds.

S3 Vectors is approximate. Vectors of the job are sampled as queries, and what the index finds for
them is compared with an exact search through all of the job's Parquet files.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from jobs.embed.job import ID_COLUMN
from jobs.errors import BatchError, VectorSpaceError
from jobs.load.index_client import IndexClient
from jobs.load.run import FinishedJob, find_job
from jobs.load.worker import read_part
from jobs.storage import open_folder

#: A result that is as near as the last of the exact ones is right too.
_TIE = 1e-6


class Recall(NamedTuple):
    """What was measured."""

    queries: int
    top: int
    #: The mean and the lowest share of the exact results that the index found.
    recall: float
    lowest: float
    #: How many of the queries' own vectors are not in the index, so it is not loaded completely.
    missing: int
    #: The median time of a query in milliseconds, from this machine.
    milliseconds: float
    #: The rows of the job, which all were compared.
    rows: int


class _Queries(NamedTuple):
    ids: Sequence[str]
    #: float32 [queries, dimension], rows of length 1.
    vectors: npt.NDArray[np.float32]


def measure_recall(
    source: str, index: IndexClient, *, queries: int, top: int, seed: int = 0
) -> Recall:
    """Measure the recall of an index.

    Args:
        source: The folder of the batch job that was loaded, or the one above it.
        index: The index.
        queries: How many rows of the job to search for; all, if there are fewer.
        top: How many results of each query to compare.
        seed: Chooses the rows.

    Raises:
        VectorSpaceError: If the index has vectors of another vector space.
        BatchError: If the job has no more rows than `top`, or cannot be read.
        UnavailableError: If S3 Vectors does not answer.
    """
    job = find_job(source)
    space = index.describe().vector_space
    if space != job.vector_space:
        raise VectorSpaceError(
            f"The index has vectors of {space or 'no vector space yet'}; the job's are of "
            f"{job.vector_space}."
        )
    sampled = _sampled(job, queries, top=top, seed=seed)
    exact_ids, exact_scores = _exact(job, sampled, top)
    missing = set(sampled.ids) - index.existing(sampled.ids)
    shares, seconds = [], []
    for number, own in enumerate(tqdm(sampled.ids, unit=" queries", disable=None)):
        began = time.monotonic()
        # One more, for the nearest vector is the query's own.
        found = index.query(sampled.vectors[number], top + 1)
        seconds.append(time.monotonic() - began)
        others = [(key, score) for key, score in found if key != own][:top]
        nearest, last = set(exact_ids[number]), exact_scores[number].min()
        right = sum(key in nearest or abs(score - last) < _TIE for key, score in others)
        shares.append(right / top)
    return Recall(
        queries=len(sampled.ids),
        top=top,
        recall=round(statistics.fmean(shares), 4),
        lowest=min(shares),
        missing=len(missing),
        milliseconds=round(1000 * statistics.median(seconds), 1),
        rows=job.rows,
    )


def _sampled(job: FinishedJob, queries: int, *, top: int, seed: int) -> _Queries:
    """Choose rows of all parts with equal probability."""
    if job.rows <= top:
        raise BatchError(f"The job has {job.rows} rows; --top must be below that. Found {top}.")
    chosen = np.random.default_rng(seed).choice(
        job.rows, size=min(queries, job.rows), replace=False
    )
    ids: list[str] = []
    vectors = []
    first = 0
    for own, matrix in _parts(job):
        rows = chosen[(chosen >= first) & (chosen < first + len(own))] - first
        first += len(own)
        ids += own[rows].tolist()
        vectors.append(matrix[rows])
    return _Queries(ids, np.concatenate(vectors))


def _exact(
    job: FinishedJob, queries: _Queries, top: int
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.float32]]:
    """Return the ids and the cosines of the nearest other rows of each query, [queries, top]."""
    best_ids = np.full((len(queries.ids), top), None, dtype=object)
    best = np.full((len(queries.ids), top), -np.inf, dtype=np.float32)
    own = np.array(queries.ids, dtype=object)
    for ids, matrix in tqdm(_parts(job), total=len(job.parts), unit=" parts", disable=None):
        scores = queries.vectors @ matrix.T
        scores[own[:, None] == ids[None, :]] = -np.inf
        scores = np.concatenate([best, scores], axis=1)
        names = np.concatenate([best_ids, np.broadcast_to(ids, (len(own), len(ids)))], axis=1)
        order = np.argpartition(-scores, top - 1, axis=1)[:, :top]
        best = np.take_along_axis(scores, order, axis=1)
        best_ids = np.take_along_axis(names, order, axis=1)
    return best_ids, best


def _parts(job: FinishedJob) -> Iterator[tuple[npt.NDArray[np.object_], npt.NDArray[np.float32]]]:
    """Yield the ids and the vectors, of length 1, of each part."""
    folder = open_folder(job.folder)
    for part in job.parts:
        table, matrix = read_part(folder, part, (), vector_space=job.vector_space)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        ids = np.array(table[ID_COLUMN].to_pylist(), dtype=object)
        yield ids, matrix / np.maximum(lengths, np.finfo(np.float32).tiny)
