"""Embeds one shard: read its rows, embed their texts, write a part."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from embedder.core.errors import InputError
from embedder.http.vector_encoding import quantize
from jobs.embed.job import Job, Shard
from jobs.embed.parts import Counts, part_bytes, read_counts
from jobs.embed.readers import metadata_types, read_records
from jobs.embed.records import Record
from jobs.embed.storage import Folder

__all__ = ["Outcome", "embed_shard", "part_key", "rejected_key"]


class Outcome(NamedTuple):
    """What a run of the worker did."""

    counts: Counts
    #: False if another run had written the part before.
    written: bool
    seconds: float


def part_key(shard: Shard) -> str:
    """Return the path of a shard's part in the job's folder."""
    return f"{shard.part}.parquet"


def rejected_key(shard: Shard) -> str:
    """Return the path of the list of a shard's rejected rows.

    Readers of a folder of Parquet files leave out names that begin with `_`.
    """
    return f"_rejected/{shard.part}.jsonl"


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
    key = part_key(shard)
    if output.find(key) is not None:
        return Outcome(read_counts(output, key), written=False, seconds=time.monotonic() - began)
    records = list(read_records(source, shard, job))
    good = [record for record in records if record.problem is None]
    rejected = [record for record in records if record.problem is not None]
    vectors, tokens, good, refused = _embed(engine, good, job)
    rejected = sorted([*rejected, *refused], key=lambda record: record.position)
    if rejected:
        output.write(rejected_key(shard), _rejected_lines(shard, rejected))
    counts = Counts(
        rows=len(good),
        rejected=len(rejected),
        tokens=tokens,
        vector_space=engine.vector_space(job.dimensions),
    )
    data = part_bytes(
        good,
        quantize(vectors, job.dtype),
        types=metadata_types(source, shard.file, job, shard.format),
        counts=counts,
    )
    if report is not None:
        report(counts)
    written = output.create(key, data)
    return Outcome(counts, written=written, seconds=time.monotonic() - began)


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
        return np.empty((0, dimensions), np.float32), 0, good, refused
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


def _rejected_lines(shard: Shard, records: Iterable[Record]) -> bytes:
    unit = "row" if shard.format == "parquet" else "byte"
    lines = [
        orjson.dumps(
            {
                "file": shard.key,
                unit: record.position,
                "id": record.id or None,
                "problem": record.problem,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for record in records
    ]
    return b"".join(lines)
