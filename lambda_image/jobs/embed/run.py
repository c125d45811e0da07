"""The steps of a job: plan its shards, embed each, and check in the end that none is missing."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from embedder.core.artifact import Manifest
from embedder.core.engine import Engine
from embedder.core.scorer import Scorer
from jobs.embed.job import (
    LABEL_COLUMNS,
    LAYOUT,
    PROGRESS_FOLDER,
    SPARSE_COLUMNS,
    Job,
    Shard,
    job_id,
)
from jobs.embed.readers import (
    columns_of,
    csv_boundaries,
    csv_form,
    format_of,
    is_compressed,
    metadata_types,
    open_parquet,
    open_stream,
)
from jobs.embed.worker import ShardCounts, embed_shard, read_counts, space_of
from jobs.errors import BatchError, ChangedModelError
from jobs.rows import column_problem, header_problem
from jobs.steps import Steps, given_settings, read_settings
from jobs.storage import Folder, StoredFile, is_hidden, open_folder

#: About 500 documents of 200 tokens, which take MiniLM 25 s on one vCPU.
_SHARD_BYTES = 512 * 1024
_LEAST_BYTES = 16 * 1024
#: MiniLM's int8 weights without its embedding table: a token's cost follows from their size.
_WEIGHTS_BYTES = 12_000_000
#: A plan in Lambda must end within 15 minutes. On one x86 core, 100 MB of content take 0.6 s of CPU
#: time as CSV, 0.5 s as compressed JSONL and 1.0 s as compressed CSV.
_LAMBDA_SCANNED_BYTES = 32 << 30
#: About how many times larger than a compressed file its content is: 3 for English prose.
_EXPANSION = 4


class JobPlan(NamedTuple):
    """A planned job."""

    id: str
    job: Job
    shards: Sequence[Shard]
    vector_space: str
    #: The job's own folder.
    folder: str


class JobResult(NamedTuple):
    """A finished job."""

    rows: int
    rejected: int
    tokens: int
    shards: int
    vector_space: str


def plan_job(job: Job, manifest: Manifest, *, most_scanned: int | None = None) -> JobPlan:
    """Plan a job and write the plan into the job's folder.

    Equal inputs, settings and models give the same folder, so that a job that is started again
    continues. More than `most_scanned` bytes of CSV and gzip content, which must be read, are a
    `BatchError`.
    """
    _check_model(job, manifest)
    size = shard_bytes(job, manifest)
    source = open_folder(job.source)
    shards = list(plan_shards(source, job, size=size, most_scanned=most_scanned))
    space = space_of(manifest, job)
    name = job_id(job, shards, vector_space=space)
    plan = JobPlan(name, job, shards, space, f"{job.destination.rstrip('/')}/{name}")
    described = {"id": name, "vector_space": space, "job": asdict(job)}
    LAYOUT.write_plan(plan.folder, described, shards)
    return plan


def shard_bytes(job: Job, manifest: Manifest) -> int:
    """Return the size of a shard: the job's own, or one by the size of the model.

    It depends only on the job and the model, because shards of another size are another job.
    """
    if job.shard_bytes is not None:
        return job.shard_bytes
    weights = max(
        (entry.bytes for name, entry in manifest.files.items() if not name.endswith(".rows")),
        default=0,
    )
    return max(_LEAST_BYTES, min(_SHARD_BYTES, _SHARD_BYTES * _WEIGHTS_BYTES // max(1, weights)))


def plan_shards(
    folder: Folder, job: Job, *, size: int, most_scanned: int | None = None
) -> Iterator[Shard]:
    """Yield the shards of all input files, numbered from 0, each of about `size` bytes of input.

    Files named with `.` or `_` in front are left out, as Spark and Arrow do it. One that has no
    known format, lacks a field, or is too large to be scanned, is a `BatchError`.
    """
    number = 0
    types = None
    scanned = 0
    for file in folder.files():
        if is_hidden(file.key):
            continue
        name = format_of(file.key)
        if name.startswith("csv") or is_compressed(file.key):
            scanned += file.size * (_EXPANSION if is_compressed(file.key) else 1)
            if most_scanned is not None and scanned > most_scanned:
                raise BatchError(
                    "CSV and gzip files must be read to plan their shards. Up to "
                    f"{most_scanned >> 30} GiB of content can be planned in Lambda's 15 minutes; "
                    f"with {file.key} there are about {scanned / (1 << 30):.1f} GiB, if a gzip "
                    f"file has {_EXPANSION} times its size. Divide the job, use JSONL or Parquet, "
                    "or run it with --local."
                )
        for shard in _shards_of(folder, file, job, name, size):
            yield replace(shard, number=number)
            number += 1
        file_types = metadata_types(folder, file, job)
        types = types or file_types
        for allowed, field in zip(types, file_types, strict=True):
            if field != allowed:
                raise BatchError(
                    f"All files of a job need the same types of metadata; found: {field.name!r} is "
                    f"{field.type} in {file.key}; allowed: {allowed.type}, as in the files before "
                    "it. "
                    "A field of JSONL and CSV is a string."
                )


def read_plan(folder: str, *, shards: bool = True) -> JobPlan:
    """Read the plan of a job from its folder, with or without the shards."""
    described, items = LAYOUT.read_plan(folder, items=shards)
    job = read_settings(Job, described["job"], name="A job")
    return JobPlan(
        described["id"], job, [Shard(**item) for item in items], described["vector_space"], folder
    )


def finish_job(plan: JobPlan) -> JobResult:
    """Compare the parts with the plan, and write the result.

    Raises:
        IncompleteJobError: If a shard has no part.
        RejectedRowsError: If more rows were rejected than the job allows. The result is written.
        BatchError: If a part has vectors of another space.
    """
    counts = LAYOUT.counts(plan.folder, plan.shards, read_counts)
    for space in {count.vector_space for count in counts} - {plan.vector_space}:
        raise BatchError(
            f"{plan.folder} has vectors of {space}; the job's are of {plan.vector_space}."
        )
    result = JobResult(
        rows=sum(count.rows for count in counts),
        rejected=sum(count.rejected for count in counts),
        tokens=sum(count.tokens for count in counts),
        shards=len(counts),
        vector_space=plan.vector_space,
    )
    LAYOUT.finish(
        plan.folder,
        {"job": plan.id, **result._asdict()},
        rejected=result.rejected,
        rows=result.rows + result.rejected,
        allowed=plan.job.max_rejected_percent,
    )
    return result


class EmbedSteps(Steps):
    """Runs the steps with one model; costs follow from `memory_mb`, the function's memory."""

    message = "batch"
    item = "shard"
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "Rows": ("Count", "rows"),
        "RejectedRows": ("Count", "rejected"),
        "Tokens": ("Count", "tokens"),
        "ShardDuration": ("Seconds", "seconds"),
    }

    def __init__(self, engine: Engine | Scorer, *, memory_mb: int = 0) -> None:
        self._engine = engine
        self._memory_mb = memory_mb

    def plan(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Plan the job that `event["job"]` describes, with `event["defaults"]` for the rest."""
        job = read_settings(Job, given_settings(event), name="A job")
        for name, url in (("source", job.source), ("destination", job.destination)):
            if not url.startswith("s3://"):
                raise BatchError(f"{name} must be s3://BUCKET/PREFIX; found {url}.")
        plan = plan_job(job, self._engine.manifest, most_scanned=_LAMBDA_SCANNED_BYTES)
        return {"id": plan.id, **LAYOUT.place(plan.folder), "shards": len(plan.shards)}

    def work(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Embed `event["shard"]`, a line of the plan in `event["folder"]`.

        A model with another vector space than the plan's is a `ChangedModelError`.
        """
        began = time.monotonic()
        plan = read_plan(event["folder"], shards=False)
        space = space_of(self._engine.manifest, plan.job)
        if space != plan.vector_space:
            raise ChangedModelError(
                f"Job {plan.id} was planned with {plan.vector_space}; the model is now {space}. "
                "Start the job again: it becomes a new job with this model."
            )
        shard = Shard(**event["shard"])
        source, output = open_folder(plan.job.source), open_folder(plan.folder)

        def report(counts: ShardCounts) -> None:
            milliseconds = round(1000 * (time.monotonic() - began))
            output.write(_progress_key(shard, counts, milliseconds, self._memory_mb), b"")

        return embed_shard(self._engine, source, output, shard, plan.job, report=report).as_json()

    def finish(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check that the job in `event["folder"]` is complete."""
        return {"folder": event["folder"], **finish_job(read_plan(event["folder"]))._asdict()}


def _check_model(job: Job, manifest: Manifest) -> None:
    if (manifest.task == "rerank") != (job.query is not None):
        raise BatchError(
            "a job with query needs a reranker, and one without query another model; "
            f"{manifest.model.name} is {manifest.kind}."
        )
    columns = {"sparse": SPARSE_COLUMNS, "classify": LABEL_COLUMNS}.get(manifest.task, ())
    reserved = sorted({*columns} & {*job.metadata})
    if columns and (job.dimensions is not None or job.dtype != "float" or reserved):
        raise BatchError(
            f"{manifest.model.name} is {manifest.kind}: its job must have no dimensions, the "
            f"dtype float and no metadata named {' or '.join(columns)}; found "
            f"{job.dimensions}, {job.dtype} and {', '.join(reserved) or 'none'}."
        )
    if manifest.scoring is not None and job.prompt is not None:
        raise BatchError(f"{manifest.model.name} is {manifest.kind}, which has no prompts.")
    if manifest.scoring is not None:
        if manifest.task == "rerank" and len(manifest.scoring.labels) > 1:
            raise BatchError(
                f"a job with query needs a reranker with one label; {manifest.model.name} has "
                f"{', '.join(manifest.scoring.labels)}."
            )
        return
    if job.dimensions is not None and job.dimensions not in manifest.dimensions:
        allowed = ", ".join(map(str, manifest.dimensions))
        raise BatchError(f"dimensions must be one of {allowed}; found {job.dimensions}.")
    if job.prompt is not None and job.prompt not in manifest.prompts:
        allowed = ", ".join(manifest.prompts) or "(the model has none)"
        raise BatchError(f"prompt must be one of {allowed}; found {job.prompt!r}.")


def _shards_of(folder: Folder, file: StoredFile, job: Job, name: str, size: int) -> Iterator[Shard]:
    shard = partial(Shard, number=0, **file._asdict(), format=name)
    if name == "parquet":
        _check_columns(open_parquet(folder, file).schema_arrow.names, file, job)
        for group, start, stop in _row_ranges(folder, file, job, size):
            yield shard(start=start, stop=stop, row_group=group)
    elif name.startswith("csv"):
        header, separator = csv_form(folder, file)
        _check_columns(header, file, job)
        bounds = csv_boundaries(folder, file, separator, shard_bytes=size)
        start = next(bounds)
        for stop in bounds:
            yield shard(start=start, stop=stop)
            start = stop
    else:
        length = _length(folder, file) if is_compressed(file.key) else file.size
        for start in range(0, length, size):
            yield shard(start=start, stop=min(start + size, length))


def _row_ranges(
    folder: Folder, file: StoredFile, job: Job, size: int
) -> Iterator[tuple[int, int, int]]:
    """Yield row groups with ranges of their rows, about `size` bytes of text in each."""
    metadata = open_parquet(folder, file).metadata
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(index) for index in range(group.num_columns)]
        text = sum(
            column.total_uncompressed_size
            for column in columns
            if column.path_in_schema in {job.text, job.query}
        )
        shards = max(1, -(-text // size))
        rows = max(1, -(-group.num_rows // shards))
        for start in range(0, group.num_rows, rows):
            yield number, start, min(start + rows, group.num_rows)


def _length(folder: Folder, file: StoredFile) -> int:
    """Return the size of a compressed file's content."""
    length = 0
    with open_stream(folder, file) as stream:
        while block := stream.read(1 << 22):
            length += len(block)
    return length


def _check_columns(names: Sequence[str], file: StoredFile, job: Job) -> None:
    columns = columns_of(file.key, job)
    problems = [
        header_problem([name for name in names if name in columns]),
        *(column_problem(names, name) for name in columns),
    ]
    if problem := next(filter(None, problems), None):
        raise BatchError(f"{file.key} {problem}.")


def _progress_key(shard: Shard, counts: ShardCounts, milliseconds: int, memory_mb: int) -> str:
    """Return the path of the record of a run, from which `embed batch status` adds up the costs.

    A record is an empty file; its name says everything: a status lists the names, up to 1,000 in a
    request, and reads no file. A shard that ran twice has two records, and both runs cost.
    """
    return (
        f"{PROGRESS_FOLDER}/{shard.part}_rows={counts.rows}_rejected={counts.rejected}"
        f"_tokens={counts.tokens}_ms={milliseconds}_mb={memory_mb}"
    )
