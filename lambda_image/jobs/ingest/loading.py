"""Loads one part: read its rows, write its vectors, record the counts."""

import io
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as arrow
import pyarrow.parquet

from jobs.embed.job_files import EMBEDDING_COLUMN, ID_COLUMN
from jobs.embed.storage import Folder
from jobs.ingest.errors import LoadError
from jobs.ingest.index_client import IndexClient
from jobs.ingest.items import Item, batches, encode
from jobs.ingest.load import LoadPlan, Part
from jobs.ingest.pace import Pace
from jobs.ingest.source import check_schema

__all__ = ["Counts", "Outcome", "load_part"]


class Counts(NamedTuple):
    """What became of the rows of a part."""

    loaded: int
    rejected: int
    #: Rows whose id a later row of the part has.
    replaced: int


class Outcome(NamedTuple):
    """What a run of the worker did."""

    counts: Counts
    #: False if another run had loaded the part before.
    written: bool
    seconds: float


def load_part(
    source: Folder, records: Folder, plan: LoadPlan, part: Part, *, index: IndexClient, pace: Pace
) -> Outcome:
    """Load a part, if no earlier run did it.

    Runs of the same part may overlap: a vector that is written twice is the same vector. The counts
    are recorded last, so that a part that has them is in the index.

    Args:
        source: The folder of the job.
        records: The folder of the load.
        plan: The load.
        part: One of its parts.
        index: The index.
        pace: The rate of this worker.

    Raises:
        VectorSpaceError: If the part has vectors of another space.
        ChangedInputError: If the file is not the one that was planned.
        LoadError: If the file cannot be read, or AWS refuses the vectors.
        UnavailableError: If S3 Vectors throttles or does not answer.
        BatchError: If a file cannot be read or written.
    """
    began = time.monotonic()
    if records.find(part.done_key) is not None:
        counts = Counts(**orjson.loads(records.read(part.done_key)))
        return Outcome(counts, written=False, seconds=time.monotonic() - began)
    table = _table(source, plan, part)
    # The last row with an id counts, as in two requests; one request should not have it twice.
    last = {key: row for row, key in enumerate(table[ID_COLUMN].to_pylist())}
    items = list(_items(table, plan, rows=last.values()))
    rejected = [item for item in items if item.problem is not None]
    if rejected:
        records.write(part.rejected_key, _rejected_lines(part, rejected))
    for batch in batches([item for item in items if item.problem is None]):
        pace.claim(len(batch))
        index.put(batch)
    pace.settle()
    counts = Counts(
        loaded=len(items) - len(rejected),
        rejected=len(rejected),
        replaced=table.num_rows - len(items),
    )
    written = records.create(part.done_key, orjson.dumps(counts._asdict()))
    return Outcome(counts, written=written, seconds=time.monotonic() - began)


def _table(source: Folder, plan: LoadPlan, part: Part) -> Any:
    name = f"{source.name}/{part.key}"
    columns = [ID_COLUMN, EMBEDDING_COLUMN, *plan.columns.values()]
    foreign = LoadError(f"{name} was not written by this batch job. Move it elsewhere.")
    try:
        file = pyarrow.parquet.ParquetFile(io.BytesIO(source.read(part.key, etag=part.etag)))
        if not set(columns) <= set(file.schema_arrow.names):
            raise foreign
        check_schema(
            file.schema_arrow,
            name=name,
            vector_space=plan.vector_space,
            dimension=plan.dimension,
        )
        return file.read(columns)
    except arrow.ArrowException as error:
        raise foreign from error


def _items(table: Any, plan: LoadPlan, *, rows: Iterable[int]) -> Iterator[Item]:
    flat = table[EMBEDDING_COLUMN].combine_chunks().flatten()
    vectors = np.ascontiguousarray(flat.to_numpy(), np.float32).reshape(-1, plan.dimension)
    ids = table[ID_COLUMN].to_pylist()
    values = {key: table[name].to_pylist() for key, name in plan.columns.items()}
    for row in sorted(rows):
        metadata = {key: column[row] for key, column in values.items()}
        yield encode(ids[row], vectors[row], metadata, non_filterable=plan.non_filterable)


def _rejected_lines(part: Part, items: Iterable[Item]) -> bytes:
    return b"".join(
        orjson.dumps(
            {"file": part.key, "id": item.id, "problem": item.problem},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for item in items
    )
