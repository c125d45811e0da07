"""Reads the records of a shard from its file: texts with their ids and metadata."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
import pyarrow as arrow
import pyarrow.parquet

from jobs.embed.job import Job, Shard
from jobs.errors import BatchError
from jobs.rows import (
    Fields,
    csv_cells,
    csv_fields,
    csv_header,
    csv_separator,
    header_problem,
    json_fields,
    parse_json,
    text_problem,
    unicode_problem,
)
from jobs.storage import Folder, StoredFile

#: The format of a file by the end of its name. Other files are refused, and none is guessed.
_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl.gz",
    ".ndjson.gz": "jsonl.gz",
    ".csv": "csv",
    ".csv.gz": "csv.gz",
    ".parquet": "parquet",
}
#: https://hive.apache.org/docs/latest/language/languagemanual-ddl/
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
#: Read with a range, in bytes, for the line that begins in it and ends after it.
_BEYOND = 1 << 16
#: The size of the reads of a whole file, in bytes.
_BLOCK = 1 << 22
#: Enough for the names of the columns, in bytes.
_HEADER_BLOCK = 1 << 16
#: Rows of a Parquet file that are in memory at a time.
_ROWS = 1024


class Record(NamedTuple):
    """A row of an input file. It has either a text or a problem."""

    #: Where the row begins: an offset in bytes, or for Parquet the number of the row, from 0.
    position: int
    id: str = ""
    text: str = ""
    #: The values of the job's metadata fields, in their order.
    metadata: tuple[Any, ...] = ()
    #: Why the row cannot be embedded. It quotes no text.
    problem: str | None = None
    #: The query of the pair, in a job that scores pairs.
    query: str = ""


def format_of(key: str) -> str:
    """Return the format of a file by its name; another name is a `BatchError`."""
    for end, name in _FORMATS.items():
        if key.lower().endswith(end):
            return name
    raise BatchError(
        f"{key} has no known format. Names must end in {', '.join(_FORMATS)}. Move other files out "
        "of the input folder."
    )


def folder_values(key: str, job: Job) -> dict[str, str | None]:
    """Return the metadata that the folders of a file name, as Hive does it: `lang=en/year=2024/`.

    Names and values are percent-decoded. Hive's name for null is None.
    """
    values: dict[str, str | None] = {}
    for folder in key.split("/")[:-1]:
        encoded_name, equals, encoded_value = folder.partition("=")
        name = unquote(encoded_name)
        if not equals or name not in job.metadata:
            continue
        if name in values:
            raise BatchError(f"{key} has the folder {name!r} twice; allowed is one.")
        try:
            value = unquote(encoded_value, errors="strict")
        except UnicodeDecodeError:
            raise BatchError(
                f"{key}: the value of a folder is not percent-encoded UTF-8: {folder}."
            ) from None
        values[name] = None if value == _HIVE_NULL else value
    return values


def columns_of(key: str, job: Job) -> list[str]:
    """Return the names of the columns that a file of a job must have."""
    folder_names = folder_values(key, job).keys() - {job.text, job.query, job.id}
    return [name for name in job.columns if name not in folder_names]


def is_compressed(key: str) -> bool:
    """Return whether a file is compressed as a whole."""
    return key.lower().endswith(".gz")


@contextmanager
def open_stream(
    folder: Folder, file: StoredFile, *, block: int = _BLOCK
) -> Iterator[io.BufferedIOBase]:
    """Open a file as a stream of its uncompressed bytes, which is read in blocks of that size."""
    raw = io.BufferedReader(folder.open(file), block)
    try:
        if is_compressed(file.key):
            with gzip.GzipFile(fileobj=raw) as stream:
                yield stream
        else:
            yield raw
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BatchError(f"{file.key} is damaged: {error}.") from error


def read_records(folder: Folder, shard: Shard, job: Job) -> Iterator[Record]:
    """Yield the records of a shard in the order of the file, also of rows with a problem.

    A folder's value counts before a field of its name, as in DuckDB and Arrow.
    """
    readers = {"jsonl": _read_jsonl, "csv": _read_csv, "parquet": _read_parquet}
    values = folder_values(shard.key, job)
    for record in readers[shard.format.removesuffix(".gz")](folder, shard, job):
        fields = zip(job.metadata, record.metadata, strict=False)
        metadata = tuple(values.get(name, value) for name, value in fields)
        yield record._replace(metadata=metadata) if values else record


def csv_form(folder: Folder, file: StoredFile) -> tuple[list[str], str]:
    """Return the names of the columns of a CSV file, each once, and what separates the cells."""
    with open_stream(folder, file, block=_HEADER_BLOCK) as stream:
        try:
            separator = csv_separator(map(_csv_line, stream))
        except csv.Error as error:
            raise BatchError(f"{file.key} {error}.") from error
        stream.seek(0)
        _, header = csv_header(_csv_records(stream, file.key, separator))
    if not header:
        raise BatchError(f"{file.key} is empty; a CSV file begins with the names of its columns.")
    if problem := header_problem(header):
        raise BatchError(f"{file.key} {problem}.")
    return header, separator


def csv_boundaries(
    folder: Folder, file: StoredFile, separator: str, *, shard_bytes: int
) -> Iterator[int]:
    """Yield offsets at which rows begin, at least `shard_bytes` apart, and at last the end.

    The first is the end of the header. A quoted field may contain the ends of lines, so only a
    parser knows where a row ends; the worker uses the same one.
    """
    with open_stream(folder, file) as stream:
        records = _csv_records(stream, file.key, separator)
        begin, _ = csv_header(records)
        row_start = begin
        yield begin
        for end, _ in records:
            if row_start - begin >= shard_bytes:
                yield row_start
                begin = row_start
            row_start = end
        if row_start > begin:
            yield row_start


def metadata_types(folder: Folder, file: StoredFile, job: Job) -> "arrow.Schema":
    """Return the types that a file's metadata has in the output.

    Parquet's columns keep theirs, and all else is text. Arrow has several types of text, and which
    one a file has depends on the program that wrote it: in the output it is always the same.
    """
    types = dict.fromkeys(job.metadata, arrow.string())
    columns = types.keys() - folder_values(file.key, job)
    if columns and format_of(file.key) == "parquet":
        schema = open_parquet(folder, file).schema_arrow
        types |= {name: _output_type(schema.field(name).type) for name in columns}
    return arrow.schema(types)


def open_parquet(folder: Folder, file: StoredFile) -> "pyarrow.parquet.ParquetFile":
    """Open a Parquet file; its parts are read on demand."""
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
    for offset, line in _lines(folder, shard):
        data = line.removeprefix(codecs.BOM_UTF8).strip()
        if data:
            fields, problem = json_fields(data, parse=_strict_json)
            yield _record(fields, problem, job, file=shard.key, position=offset)


def _strict_json(text: str) -> Any:
    """Parse JSON without NaN and lone surrogates, which orjson refuses."""
    parse_json(text)
    return orjson.loads(text)


def _lines(folder: Folder, shard: Shard) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin in a shard, each with its offset in the uncompressed file.

    Of a plain file, only the range is read. Of a compressed one, everything in front of the range
    is decompressed and dropped.
    """
    # One byte more in front: the range begins with a line if that byte ends one.
    offset = max(0, shard.start - 1)
    block = _BLOCK if is_compressed(shard.key) else shard.stop - offset + _BEYOND
    with open_stream(folder, shard.file, block=block) as stream:
        stream.seek(offset)
        if shard.start:
            offset += len(stream.readline())
        while offset < shard.stop and (data := stream.readline()):
            yield offset, data
            offset += len(data)


def _read_csv(folder: Folder, shard: Shard, job: Job) -> Iterator[Record]:
    header, separator = csv_form(folder, shard.file)
    block = _HEADER_BLOCK + shard.stop - shard.start
    with open_stream(folder, shard.file, block=block) as stream:
        stream.seek(shard.start)
        position = shard.start
        for end, cells in _csv_records(stream, shard.key, separator, offset=position):
            if cells:
                fields, problem = csv_fields(header, cells)
                yield _record(fields, problem, job, file=shard.key, position=position)
            position = end
            if position >= shard.stop:
                return


def _read_parquet(folder: Folder, shard: Shard, job: Job) -> Iterator[Record]:
    try:
        opened, columns = open_parquet(folder, shard.file), columns_of(shard.key, job)
        group = shard.row_group or 0
        before = sum(opened.metadata.row_group(number).num_rows for number in range(group))
        row = 0
        for batch in opened.iter_batches(_ROWS, row_groups=[group], columns=columns):
            start, stop = max(row, shard.start), min(row + len(batch), shard.stop)
            rows = batch.slice(start - row, max(0, stop - start)).to_pylist()
            for position, fields in enumerate(rows, before + start):
                yield _record(fields, None, job, file=shard.key, position=position, typed=True)
            row += len(batch)
            if row >= shard.stop:
                return
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise BatchError(f"{shard.key} is not valid Parquet: {error}") from error


def _csv_records(
    stream: Iterable[bytes], name: str, separator: str, *, offset: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the offset of each row's end, and its cells."""
    end = offset

    def lines() -> Iterator[str]:
        nonlocal end
        for line in stream:
            text = line if end else line.removeprefix(codecs.BOM_UTF8)
            end += len(line)
            yield _csv_line(text)

    try:
        for _, cells in csv_cells(lines(), separator):
            yield end, cells
    except csv.Error as error:
        raise BatchError(f"{name} {error}.") from error


def _csv_line(line: bytes) -> str:
    """Decode a line. A byte that is not UTF-8 becomes a lone surrogate: its row is rejected."""
    return line.decode(errors="surrogateescape")


def _record(
    fields: Fields, problem: str | None, job: Job, *, file: str, position: int, typed: bool = False
) -> Record:
    """Make the record of a row from its fields, or from why it has none.

    Only metadata of Parquet is `typed`. JSON's becomes text, because a field may have another type
    in the next row.
    """
    if problem:
        return Record(position, problem=problem)
    row_id: Any = f"{file}:{position}" if job.id is None else fields.get(job.id)
    problem = (
        text_problem(fields, job.text)
        or (job.query and text_problem(fields, job.query))
        or _problem_of_id(job, row_id)
    )
    if problem:
        return Record(position, _as_id(row_id), problem=problem)
    metadata = tuple(fields.get(name) for name in job.metadata)
    return Record(
        position,
        _as_id(row_id),
        fields[job.text],
        metadata if typed else tuple(map(_as_text, metadata)),
        query=fields[job.query] if job.query else "",
    )


def _problem_of_id(job: Job, row_id: Any) -> str | None:
    if row_id is None or isinstance(row_id, (dict, list)) or not str(row_id):
        return f"has no id in {job.id!r}"
    return unicode_problem(str(row_id), str(job.id))


def _as_id(value: Any) -> str:
    return "" if value is None else str(value).encode(errors="replace").decode()


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value.encode(errors="replace").decode() if value else value
    return orjson.dumps(value).decode()
