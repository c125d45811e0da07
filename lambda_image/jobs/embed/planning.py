"""Divides the input of a job into shards."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from embedder.core.artifact import Manifest
from jobs.embed.errors import BatchError
from jobs.embed.formats import format_of, is_compressed
from jobs.embed.job import Job, Shard
from jobs.embed.lines import open_stream
from jobs.embed.readers import csv_boundaries, csv_header, metadata_types, open_parquet
from jobs.embed.storage import Folder, StoredFile

__all__ = ["LAMBDA_SCANNED_BYTES", "plan_shards", "shard_bytes"]

#: About 500 documents of 200 tokens, which take MiniLM 25 s on one vCPU.
_SHARD_BYTES = 512 * 1024
_LEAST_BYTES = 16 * 1024
#: MiniLM's int8 weights without its embedding table: a token's cost follows from their size.
_WEIGHTS_BYTES = 12_000_000
#: A plan in Lambda must end within 15 minutes. On one x86 core, 100 MB of content take 0.6 s of CPU
#: time as CSV, 0.5 s as compressed JSONL and 1.0 s as compressed CSV.
LAMBDA_SCANNED_BYTES = 32 << 30
#: About how many times larger than a compressed file its content is: 3 for English prose.
_EXPANSION = 4


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
    """Yield the shards of all input files, numbered from 0.

    Args:
        folder: The input. Files whose names begin with `.` or `_` are left out, as Spark and Arrow
            do it.
        job: Names the fields, which must exist in Parquet and CSV files.
        size: About how many bytes of input a shard has.
        most_scanned: The most bytes of CSV and gzip content; None for any.

    Raises:
        BatchError: If a file has no known format, lacks a field, or is too large to be scanned.
    """
    number = 0
    types = None
    scanned = 0
    for file in folder.files():
        if any(part.startswith((".", "_")) for part in file.key.split("/")):
            continue
        name = format_of(file.key)
        if name.startswith("csv") or is_compressed(name):
            scanned += file.size * (_EXPANSION if is_compressed(name) else 1)
            if most_scanned is not None and scanned > most_scanned:
                raise BatchError(_too_large(scanned, most_scanned, file.key))
        for shard in _shards_of(folder, file, job, name, size):
            yield replace(shard, number=number)
            number += 1
        found = metadata_types(folder, file, job, name)
        types = types or found
        for before, now in zip(types, found, strict=True):
            if now != before:
                raise BatchError(
                    f"All files of a job need the same types of metadata; found: {now.name!r} is "
                    f"{now.type} in {file.key}; allowed: {before.type}, as in the files before it. "
                    "A field of JSONL and CSV is a string."
                )


def _shards_of(folder: Folder, file: StoredFile, job: Job, name: str, size: int) -> Iterator[Shard]:
    def shard(start: int, stop: int, row_group: int | None = None) -> Shard:
        return Shard(
            number=0,
            key=file.key,
            size=file.size,
            etag=file.etag,
            format=name,
            start=start,
            stop=stop,
            row_group=row_group,
        )

    if name == "parquet":
        _check_columns(open_parquet(folder, file).schema_arrow.names, file, job)
        for group, start, stop in _row_ranges(folder, file, job, size):
            yield shard(start, stop, group)
    elif name.startswith("csv"):
        header, _ = csv_header(folder, file, compressed=is_compressed(name))
        _check_columns(header, file, job)
        bounds = csv_boundaries(folder, file, compressed=is_compressed(name), shard_bytes=size)
        start = next(bounds)
        for stop in bounds:
            yield shard(start, stop)
            start = stop
    else:
        length = _length(folder, file) if is_compressed(name) else file.size
        for start in range(0, length, size):
            yield shard(start, min(start + size, length))


def _row_ranges(
    folder: Folder, file: StoredFile, job: Job, size: int
) -> Iterator[tuple[int, int, int]]:
    """Yield row groups with ranges of their rows whose texts have about `size` bytes."""
    metadata = open_parquet(folder, file).metadata
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(index) for index in range(group.num_columns)]
        text = sum(
            column.total_uncompressed_size
            for column in columns
            if column.path_in_schema == job.text
        )
        shards = max(1, -(-text // size))
        rows = max(1, -(-group.num_rows // shards))
        for start in range(0, group.num_rows, rows):
            yield number, start, min(start + rows, group.num_rows)


def _length(folder: Folder, file: StoredFile) -> int:
    """Return the size of a compressed file's content."""
    length = 0
    with open_stream(folder, file, compressed=True) as stream:
        while block := stream.read(1 << 22):
            length += len(block)
    return length


def _check_columns(names: Sequence[str], file: StoredFile, job: Job) -> None:
    for name in job.columns:
        if names.count(name) != 1:
            raise BatchError(
                f"{file.key} has no column {name!r}; it has {', '.join(map(repr, names))}."
            )


def _too_large(scanned: int, most: int, key: str) -> str:
    return (
        f"CSV and gzip files must be read to plan their shards. Up to {most >> 30} GiB of content "
        f"can be planned in Lambda's 15 minutes; with {key} there are about "
        f"{scanned / (1 << 30):.1f} GiB, if a gzip file has {_EXPANSION} times its size. "
        "Divide the job, use JSONL or Parquet, or run it with --local."
    )
