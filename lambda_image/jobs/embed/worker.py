"""Embeds one shard: read its rows, embed their texts, write a part."""

import io
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as arrow
import pyarrow.parquet

from embedder.core.artifact import Artifact
from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from embedder.core.errors import InputError
from embedder.core.sparse_encoder import SparseEncoder
from embedder.http.vector_encoding import quantize
from jobs.embed.job import (
    EMBEDDING_COLUMN,
    FRAME,
    ID_COLUMN,
    SPARSE_COLUMNS,
    VECTOR_SPACE_KEY,
    Job,
    Shard,
)
from jobs.embed.readers import Record, metadata_types, read_records
from jobs.errors import BatchError
from jobs.steps import Outcome, json_lines
from jobs.storage import Folder

#: The key of a part's footer that has the counts.
_COUNTS_KEY = "embedding_batch"


class Counts(NamedTuple):
    """What a shard did; it is in the footer of the part, so that a second run need not count."""

    rows: int
    rejected: int
    tokens: int
    vector_space: str


def load_engine(artifact: Artifact, **options: Any) -> Engine:
    """Load a model of vectors, dense or sparse; see `Engine.load`."""
    kind = SparseEncoder if artifact.manifest.task == "sparse" else Engine
    return kind.load(artifact, **options)


def embed_shard(
    engine: Engine,
    source: Folder,
    output: Folder,
    shard: Shard,
    job: Job,
    *,
    report: Callable[[Counts], None] | None = None,
) -> Outcome:
    """Embed a shard, if no earlier run did it.

    Runs of the same shard may overlap: each writes the same bytes, and only the first part is kept.
    The rejected rows are written and the counts reported before the part, so that a part is
    complete with both.

    Args:
        engine: The model.
        source: The folder of the input.
        output: The folder of the job.
        shard: One of the job's plan.
        job: How to read and embed it.
        report: Receives the counts before the part is written.

    Raises:
        ChangedInputError: If the input file is not the one that was planned.
        BatchError: If a file cannot be read or written.
        InferenceError: If the model fails.
    """
    began = time.monotonic()
    if output.find(shard.done_key) is not None:
        counts = read_counts(output, shard.done_key)
        return Outcome(shard.part, counts, written=False, seconds=time.monotonic() - began)
    records = list(read_records(source, shard, job))
    good = [record for record in records if record.problem is None]
    rejected = [record for record in records if record.problem is not None]
    vectors, tokens, good, refused = _embed(engine, good, job)
    rejected = sorted([*rejected, *refused], key=lambda record: record.position)
    if rejected:
        output.write(f"{FRAME.rejected}/{shard.part}.jsonl", _rejected_lines(shard, rejected))
    counts = Counts(
        rows=len(good),
        rejected=len(rejected),
        tokens=tokens,
        vector_space=engine.vector_space(job.dimensions),
    )
    data = _part(
        good,
        _sparse_columns(vectors) if engine.task == "sparse" else _dense_column(vectors, job.dtype),
        types=metadata_types(source, shard.file, job),
        counts=counts,
    )
    if report is not None:
        report(counts)
    written = output.create(shard.done_key, data)
    return Outcome(shard.part, counts, written=written, seconds=time.monotonic() - began)


def _embed(
    engine: Engine, records: list[Record], job: Job
) -> tuple[npt.NDArray[np.float32], int, list[Record], list[Record]]:
    """Return the vectors, the number of tokens, the embedded records and the refused ones."""
    good, refused = records, []
    try:
        if good:
            embeddings = engine.embed_request(_request(good, job))
    except InputError:
        # A text is too long, or has no token. Only then is each encoded alone, to find them all.
        checked = [record._replace(problem=_refusal(engine, record, job)) for record in records]
        good = [record for record in checked if record.problem is None]
        refused = [record for record in checked if record.problem is not None]
        if good:
            embeddings = engine.embed_request(_request(good, job))
    if not good:
        dimensions = job.dimensions or engine.limits.full_dimensions
        shape = (0,) if engine.task == "sparse" else (0, dimensions)
        return np.empty(shape, np.float32), 0, good, refused
    return embeddings.vectors, sum(embeddings.tokens), good, refused


def _refusal(engine: Engine, record: Record, job: Job) -> str | None:
    try:
        engine.encoder.encode(_request([record], job))
    except InputError as error:
        return error.problem
    return None


def _request(records: Sequence[Record], job: Job) -> EmbedRequest:
    return EmbedRequest(
        Inputs(texts=[record.text for record in records]),
        prompt=job.prompt,
        dimensions=job.dimensions,
        truncate=job.truncate,
    )


def _dense_column(vectors: npt.NDArray[np.float32], dtype: str) -> dict[str, "arrow.Array"]:
    """Return the column of vectors [rows, dimensions]."""
    numbers = np.ascontiguousarray(quantize(vectors, dtype))
    values = arrow.array(numbers.reshape(-1))
    return {EMBEDDING_COLUMN: arrow.FixedSizeListArray.from_arrays(values, numbers.shape[1])}


def _sparse_columns(vectors: npt.NDArray[Any]) -> dict[str, "arrow.Array"]:
    """Return the columns of vectors, each a `SparseVector`: lists of uint32 and of float32."""
    types = (arrow.uint32(), arrow.float32())
    return {
        name: arrow.array([vector[part] for vector in vectors], arrow.list_(types[part]))
        for part, name in enumerate(SPARSE_COLUMNS)
    }


def _part(
    records: Sequence[Record],
    vectors: Mapping[str, "arrow.Array"],
    *,
    types: "arrow.Schema",
    counts: Counts,
) -> bytes:
    """Return the bytes of a part; equal arguments give equal bytes.

    `types` are those of the metadata columns, and `vectors` are columns with a row for each
    record.
    """
    columns = {
        ID_COLUMN: arrow.array([record.id for record in records], arrow.string()),
        **vectors,
    }
    for index, field in enumerate(types):
        values_of = [record.metadata[index] for record in records]
        columns[field.name] = arrow.array(values_of, field.type)
    footer = {
        VECTOR_SPACE_KEY: counts.vector_space,
        _COUNTS_KEY: orjson.dumps(counts._asdict()).decode(),
    }
    table = arrow.table(columns).replace_schema_metadata(footer)
    buffer = io.BytesIO()
    # Vectors do not compress: without a codec and a dictionary they are read fastest.
    pyarrow.parquet.write_table(
        table, buffer, compression="none", use_dictionary=False, write_statistics=[ID_COLUMN]
    )
    return buffer.getvalue()


def _rejected_lines(shard: Shard, records: Iterable[Record]) -> bytes:
    unit = "row" if shard.format == "parquet" else "byte"
    return json_lines(
        {
            "file": shard.key,
            unit: record.position,
            "id": record.id or None,
            "problem": record.problem,
        }
        for record in records
    )


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
        return Counts(**orjson.loads((schema.metadata or {})[_COUNTS_KEY.encode()]))
    except (arrow.ArrowException, KeyError, TypeError, ValueError) as error:
        raise BatchError(
            f"{folder.name}/{key} was not written by a batch job. Move it elsewhere."
        ) from error
