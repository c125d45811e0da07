"""Reads the records of a shard from its file."""

import codecs
import csv
from collections.abc import Callable, Iterable, Iterator

import orjson
import pyarrow as arrow
import pyarrow.parquet

from embedder.http.json_body import has_repeated_key
from jobs.embed.errors import BatchError
from jobs.embed.formats import is_compressed
from jobs.embed.job import Job, Shard
from jobs.embed.lines import lines_between, open_stream
from jobs.embed.records import Record, record_of
from jobs.embed.storage import Folder, StoredFile

__all__ = ["csv_boundaries", "csv_header", "metadata_types", "open_parquet", "read_records"]

#: The longest field of a CSV file, in characters: that of the largest line that a shard may have.
_LONGEST_FIELD = 1 << 27
#: Enough for the names of the columns, in bytes.
_HEADER_BLOCK = 1 << 16
#: Rows of a Parquet file that are in memory at a time.
_ROWS = 1024


def read_records(folder: Folder, shard: Shard, job: Job) -> Iterator[Record]:
    """Yield the records of a shard in the order of the file. A row with a problem is one of them.

    Raises:
        ChangedInputError: If the file is not the one that was planned.
        BatchError: If it cannot be read.
    """
    name = shard.format.removesuffix(".gz")
    readers: dict[str, Callable[[Folder, Shard, Job], Iterator[Record]]] = {
        "jsonl": _read_jsonl,
        "csv": _read_csv,
        "parquet": _read_parquet,
    }
    yield from readers[name](folder, shard, job)


def csv_header(folder: Folder, file: StoredFile, *, compressed: bool) -> tuple[list[str], int]:
    """Return the names of the columns, and the offset at which the first row begins.

    Raises:
        BatchError: If the file has no header, or a name twice.
    """
    with open_stream(folder, file, compressed=compressed, block=_HEADER_BLOCK) as stream:
        for header, end in _csv_records(stream, file.key):
            twice = sorted({name for name in header if header.count(name) > 1})
            if twice:
                raise BatchError(f"{file.key} has more than one column named {twice[0]!r}.")
            return header, end
    raise BatchError(f"{file.key} is empty; a CSV file begins with the names of its columns.")


def csv_boundaries(
    folder: Folder, file: StoredFile, *, compressed: bool, shard_bytes: int
) -> Iterator[int]:
    """Yield offsets at which rows begin, at least `shard_bytes` apart, and at last the end.

    The first is the end of the header. A quoted field may contain the ends of lines, so only a
    parser knows where a row ends; the worker uses the same one.
    """
    with open_stream(folder, file, compressed=compressed) as stream:
        records = _csv_records(stream, file.key)
        begin = last = next(records)[1]
        yield begin
        for _, end in records:
            if last - begin >= shard_bytes:
                yield last
                begin = last
            last = end
        if last > begin:
            yield last


def metadata_types(folder: Folder, file: StoredFile, job: Job, kind: str) -> "arrow.Schema":
    """Return the types that a file's metadata has in the output.

    Parquet's columns keep theirs, and all else is text. Arrow has several types of text, and which
    one a file has depends on the program that wrote it: in the output it is always the same.
    """
    if kind != "parquet" or not job.metadata:
        return arrow.schema([(name, arrow.string()) for name in job.metadata])
    schema = open_parquet(folder, file).schema_arrow
    return arrow.schema([(name, _output_type(schema.field(name).type)) for name in job.metadata])


def open_parquet(folder: Folder, file: StoredFile) -> "pyarrow.parquet.ParquetFile":
    """Open a Parquet file, whose parts are read on demand.

    Raises:
        BatchError: If it is not a valid one.
    """
    try:
        return pyarrow.parquet.ParquetFile(folder.open(file), pre_buffer=True)
    except arrow.ArrowException as error:
        raise BatchError(f"{file.key} is not valid Parquet: {error}") from error


def _output_type(found: "arrow.DataType") -> "arrow.DataType":
    if arrow.types.is_dictionary(found):
        return _output_type(found.value_type)
    is_text = arrow.types.is_large_string(found) or arrow.types.is_string_view(found)
    return arrow.string() if is_text else found


def _read_jsonl(folder: Folder, shard: Shard, job: Job) -> Iterator[Record]:
    compressed = is_compressed(shard.format)
    lines = lines_between(
        folder, shard.file, start=shard.start, stop=shard.stop, compressed=compressed
    )
    for offset, line in lines:
        data = line.removeprefix(codecs.BOM_UTF8).strip()
        if not data:
            continue
        try:
            values = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            yield Record(offset, "", "", problem=f"is not JSON: {error.msg}")
            continue
        if isinstance(values, dict) and has_repeated_key(data, values):
            yield Record(offset, "", "", problem="has a key twice in one object")
        elif isinstance(values, dict):
            yield record_of(values, job, file=shard.key, position=offset)
        else:
            problem = f"is not a JSON object: {type(values).__name__}"
            yield Record(offset, "", "", problem=problem)


def _read_csv(folder: Folder, shard: Shard, job: Job) -> Iterator[Record]:
    compressed = is_compressed(shard.format)
    header, _ = csv_header(folder, shard.file, compressed=compressed)
    block = _HEADER_BLOCK + shard.stop - shard.start
    with open_stream(folder, shard.file, compressed=compressed, block=block) as stream:
        stream.seek(shard.start)
        position = shard.start
        for cells, end in _csv_records(stream, shard.key, offset=shard.start):
            if len(cells) > len(header):
                problem = f"has {len(cells)} cells; the header has {len(header)}"
                yield Record(position, "", "", problem=problem)
            elif cells:
                values = dict(zip(header, cells, strict=False))
                yield record_of(values, job, file=shard.key, position=position)
            position = end
            if position >= shard.stop:
                return


def _read_parquet(folder: Folder, shard: Shard, job: Job) -> Iterator[Record]:
    columns = job.columns
    try:
        opened = open_parquet(folder, shard.file)
        group = shard.row_group or 0
        before = sum(opened.metadata.row_group(number).num_rows for number in range(group))
        row = 0
        for batch in opened.iter_batches(_ROWS, row_groups=[group], columns=columns):
            first, last = max(row, shard.start), min(row + len(batch), shard.stop)
            for values in batch.slice(first - row, max(0, last - first)).to_pylist():
                yield record_of(values, job, file=shard.key, position=before + first, typed=True)
                first += 1
            row += len(batch)
            if row >= shard.stop:
                return
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise BatchError(f"{shard.key} is not valid Parquet: {error}") from error


def _csv_records(
    stream: Iterable[bytes], name: str, *, offset: int = 0
) -> Iterator[tuple[list[str], int]]:
    """Yield the cells of each row, and the offset of its end."""
    end = offset

    def lines() -> Iterator[str]:
        nonlocal end
        for line in stream:
            text = line if end else line.removeprefix(codecs.BOM_UTF8)
            end += len(line)
            # A byte that is not UTF-8 becomes a lone surrogate, for which its row is rejected.
            yield text.decode(errors="surrogateescape")

    csv.field_size_limit(_LONGEST_FIELD)
    try:
        for cells in csv.reader(lines(), strict=True):
            yield cells, end
    except csv.Error as error:
        raise BatchError(f"{name} is not CSV at byte {end}: {error}.") from error
