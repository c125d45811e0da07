"""The output file of a shard: Parquet with ids, embeddings and metadata."""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as arrow
import pyarrow.parquet

from jobs.embed.errors import BatchError
from jobs.embed.job_files import (
    COUNTS_KEY,
    EMBEDDING_COLUMN,
    ID_COLUMN,
    VECTOR_SPACE_KEY,
)
from jobs.embed.records import Record
from jobs.embed.storage import Folder

__all__ = ["Counts", "part_bytes", "read_counts"]


class Counts(NamedTuple):
    """What a shard did; it is in the footer of the part, so that a second run need not count."""

    rows: int
    rejected: int
    tokens: int
    vector_space: str


def part_bytes(
    records: Sequence[Record],
    vectors: npt.NDArray[Any],
    *,
    types: "arrow.Schema",
    counts: Counts,
) -> bytes:
    """Return the bytes of a part; equal arguments give equal bytes.

    Args:
        records: One for each vector.
        vectors: [records, numbers of a vector], of any of the embedder's dtypes.
        types: The metadata columns.
        counts: For the footer.
    """
    numbers = np.ascontiguousarray(vectors)
    width = numbers.shape[1]
    values = arrow.array(numbers.reshape(-1))
    columns = {
        ID_COLUMN: arrow.array([record.id for record in records], arrow.string()),
        EMBEDDING_COLUMN: arrow.FixedSizeListArray.from_arrays(values, width),
    }
    for index, field in enumerate(types):
        values_of = [record.metadata[index] for record in records]
        columns[field.name] = arrow.array(values_of, field.type)
    footer = {
        VECTOR_SPACE_KEY: counts.vector_space,
        COUNTS_KEY: orjson.dumps(counts._asdict()).decode(),
    }
    table = arrow.table(columns).replace_schema_metadata(footer)
    buffer = io.BytesIO()
    # Vectors do not compress: without a codec and a dictionary they are read fastest.
    pyarrow.parquet.write_table(
        table, buffer, compression="none", use_dictionary=False, write_statistics=[ID_COLUMN]
    )
    return buffer.getvalue()


def read_counts(folder: Folder, key: str) -> Counts:
    """Read the counts of a part.

    Raises:
        BatchError: If the file does not exist, or is not a part of a job.
    """
    file = folder.find(key)
    if file is None:
        raise BatchError(f"{folder.name}/{key} does not exist.")
    try:
        schema = pyarrow.parquet.read_schema(io.BufferedReader(folder.open(file)))
        return Counts(**orjson.loads((schema.metadata or {})[COUNTS_KEY.encode()]))
    except (arrow.ArrowException, KeyError, TypeError, ValueError) as error:
        raise BatchError(
            f"{folder.name}/{key} was not written by a batch job. Move it elsewhere."
        ) from error
