"""Loads one part: read its rows, write its vectors, record the counts."""

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as arrow
import pyarrow.parquet

from jobs.command import run_all
from jobs.embed.job import EMBEDDING_COLUMN, ID_COLUMN, VECTOR_SPACE_KEY
from jobs.errors import BatchError, VectorSpaceError
from jobs.load.index_client import IndexClient, Item, batches, encode
from jobs.load.run import LAYOUT, LoadCounts, LoadPart, LoadPlan, read_counts
from jobs.steps import ItemOutcome, json_lines
from jobs.storage import Folder, StoredFile, open_folder


class RateLimit:
    """Limits how many vectors a second are written. Threads may share it.

    AWS takes 2,500 vectors a second for an index, from all writers together.
    """

    def __init__(
        self,
        vectors_per_second: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = vectors_per_second
        self._now = now
        self._sleep = sleep
        self._free = now()
        self._lock = threading.Lock()

    def claim(self, vectors: int) -> None:
        """Wait until all earlier vectors have had their time, then take that of these."""
        with self._lock:
            start = max(self._now(), self._free)
            self._free = start + vectors / self._rate
        self._wait_until(start)

    def settle(self) -> None:
        """Wait until all vectors have had their time, so that another writer may begin."""
        with self._lock:
            end = self._free
        self._wait_until(end)

    def _wait_until(self, moment: float) -> None:
        pause = moment - self._now()
        if pause > 0:
            self._sleep(pause)


def load_part(
    source: Folder,
    records: Folder,
    plan: LoadPlan,
    part: LoadPart,
    *,
    index: IndexClient,
    limit: RateLimit,
) -> ItemOutcome:
    """Load a part of the plan's job, if no earlier run did it.

    Runs of the same part may overlap: a vector that is written twice is the same vector. The counts
    are recorded last, so that a part that has them is in the index.
    """
    began = time.monotonic()
    if records.find(part.done_key) is not None:
        counts = read_counts(records, part.done_key)
        return ItemOutcome(part.key, counts, written=False, seconds=time.monotonic() - began)
    items, replaced = _items(source, plan, part)
    rejected = [item for item in items if item.problem is not None]
    if rejected:
        lines = [{"file": part.key, "id": item.id, "problem": item.problem} for item in rejected]
        records.write(f"{LAYOUT.rejected}/{part.key}.jsonl", json_lines(lines))
    for batch in batches([item for item in items if item.problem is None]):
        limit.claim(len(batch))
        index.put(batch)
    limit.settle()
    counts = LoadCounts(len(items) - len(rejected), len(rejected), replaced)
    written = records.create(part.done_key, orjson.dumps(counts._asdict()))
    return ItemOutcome(part.key, counts, written=written, seconds=time.monotonic() - began)


def load_parts(
    plan: LoadPlan, parts: Sequence[LoadPart], *, index: IndexClient, limit: RateLimit, threads: int
) -> Iterator[ItemOutcome]:
    """Load parts in threads, which wait for S3 Vectors most of the time.

    See `run_all` for the order of the outcomes. The limit is of all threads together.
    """
    source, records = open_folder(plan.job), open_folder(plan.folder)
    load = partial(load_part, source, records, plan, index=index, limit=limit)
    return run_all(ThreadPoolExecutor(threads), load, parts)


def read_part(
    job: Folder, part: StoredFile, columns: Iterable[str], *, vector_space: str
) -> tuple[Any, npt.NDArray[np.float32]]:
    """Return the columns of a part, an Arrow table, and its vectors, float32 [rows, dimension].

    Vectors of another space are a `VectorSpaceError`.
    """
    name = f"{job.name}/{part.key}"
    dimension = int(vector_space.rpartition("/")[2])
    names = [ID_COLUMN, EMBEDDING_COLUMN, *columns]
    foreign = BatchError(f"{name} was not written by this batch job. Move it elsewhere.")
    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(job.read(part.key, etag=part.etag)))
        if not set(names) <= set(file.schema_arrow.names):
            raise foreign
        _check_schema(file.schema_arrow, name, vector_space=vector_space, dimension=dimension)
        table = file.read(names)
    except arrow.ArrowException as error:
        raise foreign from error
    flat = table[EMBEDDING_COLUMN].combine_chunks().flatten()
    return table, np.ascontiguousarray(flat.to_numpy(), np.float32).reshape(-1, dimension)


def _items(job: Folder, plan: LoadPlan, part: LoadPart) -> tuple[list[Item], int]:
    """Return the rows of a part, each id once, and the number of rows that others replaced."""
    table, vectors = read_part(job, part, plan.columns.values(), vector_space=plan.vector_space)
    ids = table[ID_COLUMN].to_pylist()
    # The last row with an id counts, as in two requests; one request should not have it twice.
    rows_by_id = {key: row for row, key in enumerate(ids)}
    values = {key: table[name].to_pylist() for key, name in plan.columns.items()}
    items = [
        encode(
            ids[row],
            vectors[row],
            {key: column[row] for key, column in values.items()},
            non_filterable=plan.non_filterable,
        )
        for row in sorted(rows_by_id.values())
    ]
    return items, table.num_rows - len(items)


def _check_schema(schema: Any, name: str, *, vector_space: str, dimension: int) -> None:
    """Check that a part has vectors of the index: their space, type and dimension."""
    space = (schema.metadata or {}).get(VECTOR_SPACE_KEY.encode(), b"").decode()
    if space != vector_space:
        raise VectorSpaceError(
            f"{name} has vectors of {space or 'an unknown vector space'}; the load is of "
            f"{vector_space}."
        )
    vector_type = schema.field(EMBEDDING_COLUMN).type
    if not arrow.types.is_fixed_size_list(vector_type) or vector_type.value_type != arrow.float32():
        raise BatchError(
            f"{name} has vectors of the type {vector_type}; S3 Vectors takes float32. Start the "
            "batch job without --dtype."
        )
    if vector_type.list_size != dimension:
        raise VectorSpaceError(
            f"{name} has vectors of {vector_type.list_size} dimensions; the index has {dimension}."
        )
