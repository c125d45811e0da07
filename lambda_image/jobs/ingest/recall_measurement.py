"""Measures how many of the nearest vectors an index finds.

S3 Vectors is approximate. Vectors of the job are sampled as queries, and what the index finds for
them is compared with an exact search through all of the job's Parquet files.
"""

import io
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as arrow
import pyarrow.parquet
from tqdm import tqdm

from jobs.embed.job_files import EMBEDDING_COLUMN, ID_COLUMN
from jobs.embed.storage import open_folder
from jobs.ingest.errors import LoadError, VectorSpaceError
from jobs.ingest.index_client import IndexClient
from jobs.ingest.source import FinishedJob, check_schema, find_job

__all__ = ["Recall", "measure_recall"]

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
        LoadError: If the job has no more rows than `top`.
        BatchError: If the job cannot be read.
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
    folder = open_folder(job.folder)
    counts = []
    for part in job.parts:
        with pyarrow.parquet.ParquetFile(io.BufferedReader(folder.open(part))) as file:
            counts.append(file.metadata.num_rows)
    if sum(counts) <= top:
        raise LoadError(f"The job has {sum(counts)} rows; --top must be below that. Found {top}.")
    rows = np.sort(
        np.random.default_rng(seed).choice(
            sum(counts), size=min(queries, sum(counts)), replace=False
        )
    )
    ids: list[str] = []
    vectors = []
    first = 0
    for number, count in enumerate(counts):
        chosen = rows[(rows >= first) & (rows < first + count)] - first
        first += count
        if len(chosen):
            own, matrix = _read(job, number)
            ids += [own[row] for row in chosen]
            vectors.append(matrix[chosen])
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
    for number in range(len(job.parts)):
        yield _read(job, number)


def _read(job: FinishedJob, number: int) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.float32]]:
    """Return the ids and the vectors, of length 1, of a part."""
    part, folder = job.parts[number], open_folder(job.folder)
    dimension = int(job.vector_space.rpartition("/")[2])
    name = f"{folder.name}/{part.key}"
    try:
        content = io.BytesIO(folder.read(part.key, etag=part.etag))
        table = pyarrow.parquet.read_table(content, columns=[ID_COLUMN, EMBEDDING_COLUMN])
    except arrow.ArrowException as error:
        raise LoadError(f"{name} was not written by this batch job. Move it elsewhere.") from error
    check_schema(table.schema, name=name, vector_space=job.vector_space, dimension=dimension)
    flat = table[EMBEDDING_COLUMN].combine_chunks().flatten()
    matrix = np.ascontiguousarray(flat.to_numpy(), np.float32).reshape(-1, dimension)
    lengths = np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.array(table[ID_COLUMN].to_pylist(), dtype=object), matrix / lengths
