"""Embeds one shard: read its rows, embed their texts, write a part."""

import io
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as arrow
import pyarrow.parquet

from embedder.core.artifact import Artifact, Manifest
from embedder.core.classifier import Classifier
from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from embedder.core.errors import InputError
from embedder.core.quantization import quantize
from embedder.core.reranker import Reranker
from embedder.core.scorer import MAX_INPUTS, Scorer
from embedder.core.sparse import SparseEncoder
from jobs.embed.job import (
    EMBEDDING_COLUMN,
    ID_COLUMN,
    LABEL_COLUMNS,
    LAYOUT,
    SCORE_COLUMN,
    SPARSE_COLUMNS,
    VECTOR_SPACE_KEY,
    Job,
    Shard,
)
from jobs.embed.readers import Record, metadata_types, read_records
from jobs.errors import BatchError
from jobs.steps import ItemOutcome, json_lines
from jobs.storage import Folder

#: The key of a part's footer that has the counts.
_COUNTS_KEY = "embedding_batch"


def space_of(manifest: Manifest, job: Job) -> str:
    """Return the space of a job's vectors or scores."""
    if manifest.scoring is not None:
        return manifest.space
    return manifest.vector_space_of(dimensions=job.dimensions or manifest.full_dimensions)


class ShardCounts(NamedTuple):
    """Counts of a finished shard, in the footer of its part: a second run need not count."""

    rows: int
    rejected: int
    tokens: int
    vector_space: str


def load_engine(artifact: Artifact, **options: Any) -> Engine | Scorer:
    """Load a model of any task; see `Engine.load`."""
    engines: dict[str, type[Engine | Scorer]] = {
        "classify": Classifier,
        "rerank": Reranker,
        "sparse": SparseEncoder,
    }
    return engines.get(artifact.manifest.task, Engine).load(artifact, **options)


def embed_shard(
    engine: Engine | Scorer,
    source: Folder,
    output: Folder,
    shard: Shard,
    job: Job,
    *,
    report: Callable[[ShardCounts], None] | None = None,
) -> ItemOutcome:
    """Embed a shard, if no earlier run did it.

    Runs of the same shard may overlap: each writes the same bytes, and only the first part is kept.
    The rejected rows are written and the counts go to `report` before the part, so that a part is
    complete with both.

    Raises:
        ChangedInputError: If the input file is not the one that was planned.
        BatchError: If a file cannot be read or written.
        InferenceError: If the model fails.
    """
    began = time.monotonic()
    if output.find(shard.done_key) is not None:
        counts = read_counts(output, shard.done_key)
        return ItemOutcome(shard.part, counts, written=False, seconds=time.monotonic() - began)
    records = list(read_records(source, shard, job))
    good = [record for record in records if record.problem is None]
    rejected = [record for record in records if record.problem is not None]
    if isinstance(engine, Scorer):
        vectors, tokens, good, refused = _score(engine, good, job)
    else:
        vectors, tokens, good, refused = _embed(engine, good, job)
    rejected = sorted([*rejected, *refused], key=lambda record: record.position)
    if rejected:
        unit = "row" if shard.format == "parquet" else "byte"
        lines = [
            {
                "file": shard.key,
                unit: record.position,
                "id": record.id or None,
                "problem": record.problem,
            }
            for record in rejected
        ]
        output.write(f"{LAYOUT.rejected}/{shard.part}.jsonl", json_lines(lines))
    counts = ShardCounts(
        rows=len(good),
        rejected=len(rejected),
        tokens=tokens,
        vector_space=space_of(engine.manifest, job),
    )
    data = _part(
        good,
        _columns(vectors, engine, job),
        types=metadata_types(source, shard.file, job),
        counts=counts,
    )
    if report is not None:
        report(counts)
    written = output.create(shard.done_key, data)
    return ItemOutcome(shard.part, counts, written=written, seconds=time.monotonic() - began)


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


def _score(
    scorer: Scorer, records: list[Record], job: Job
) -> tuple[npt.NDArray[np.float32], int, list[Record], list[Record]]:
    """Return the scores of a reranker, float32 [records], and the rest as `_embed` does.

    Those of a classifier are its logits, float32 [records, labels].
    """
    pairs, how = scorer.task == "rerank", job.truncate
    if pairs and how != "refuse":
        how = scorer.scoring.truncation
    shape = (0,) if pairs else (0, len(scorer.scoring.labels))
    scores: list[npt.NDArray[np.float32]] = [np.empty(shape, np.float32)]
    tokens, good, refused = 0, [], []
    groups = deque(records[i : i + MAX_INPUTS] for i in range(0, len(records), MAX_INPUTS))
    while groups:
        group = groups.popleft()
        try:
            group_scores, work = scorer.predict(
                [(record.query, record.text) if pairs else record.text for record in group],
                raw=not pairs,
                truncate=how,
            )
        except InputError as error:
            # Only then is each scored alone, which changes no score, to find all that are refused.
            if len(group) == 1:
                refused.append(group[0]._replace(problem=error.problem))
            else:
                groups.extendleft([record] for record in reversed(group))
            continue
        scores.append(group_scores)
        tokens += sum(work.tokens)
        good += group
    return np.concatenate(scores), tokens, good, refused


def _refusal(engine: Engine, record: Record, job: Job) -> str | None:
    try:
        engine.request_tokenizer.encode(_request([record], job))
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


def _columns(
    values: npt.NDArray[Any], engine: Engine | Scorer, job: Job
) -> dict[str, "arrow.Array"]:
    """Return what the model gave, with a row for each record, as a part has it.

    Vectors are [records, dimensions], scores [records], the logits of a classifier [records,
    labels], and of a sparse encoder each value is a `SparseVector`.
    """
    if isinstance(engine, Classifier):
        # The logits decide, as in an answer: scores of 1 are equal in float32.
        best = values.argmax(axis=1)
        scores, labels = engine.activated(values), engine.scoring.labels
        columns = (
            arrow.array([labels[index] for index in best], arrow.string()),
            arrow.array(scores[np.arange(len(best)), best]),
            arrow.StructArray.from_arrays([*map(arrow.array, scores.T)], names=labels),
        )
        return dict(zip(LABEL_COLUMNS, columns, strict=True))
    if engine.task == "rerank":
        return {SCORE_COLUMN: arrow.array(values)}
    if engine.task == "sparse":
        types = (arrow.uint32(), arrow.float32())
        return {
            name: arrow.array([vector[index] for vector in values], arrow.list_(types[index]))
            for index, name in enumerate(SPARSE_COLUMNS)
        }
    numbers = np.ascontiguousarray(quantize(values, job.dtype))
    flat = arrow.array(numbers.reshape(-1))
    return {EMBEDDING_COLUMN: arrow.FixedSizeListArray.from_arrays(flat, numbers.shape[1])}


def _part(
    records: Sequence[Record],
    vectors: Mapping[str, "arrow.Array"],
    *,
    types: "arrow.Schema",
    counts: ShardCounts,
) -> bytes:
    """Return the bytes of a part; equal arguments give equal bytes. `types` are of the metadata."""
    columns = {ID_COLUMN: arrow.array([record.id for record in records], arrow.string()), **vectors}
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


def read_counts(folder: Folder, key: str) -> ShardCounts:
    """Read the counts of a part; a file that is none is a `BatchError`."""
    file = folder.find(key)
    if file is None:
        raise BatchError(f"{folder.name}/{key} does not exist.")
    try:
        schema = pyarrow.parquet.read_schema(io.BufferedReader(folder.open(file)))
        return ShardCounts(**orjson.loads((schema.metadata or {})[_COUNTS_KEY.encode()]))
    except (arrow.ArrowException, KeyError, TypeError, ValueError) as error:
        raise BatchError(
            f"{folder.name}/{key} was not written by a batch job. Move it elsewhere."
        ) from error
