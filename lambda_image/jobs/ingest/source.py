"""The job whose output is loaded: its folder, its result, and the columns of its parts."""

import io
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as arrow
import pyarrow.parquet

from jobs.embed.job_files import (
    EMBEDDING_COLUMN,
    ID_COLUMN,
    JOB_FILE,
    RESULT_FILE,
    VECTOR_SPACE_KEY,
)
from jobs.embed.storage import Folder, StoredFile, open_folder
from jobs.ingest.errors import LoadError, VectorSpaceError
from jobs.ingest.items import MAX_KEYS

__all__ = ["TEXT_KEY", "FinishedJob", "check_schema", "find_job", "metadata_columns"]

#: The metadata key of the text.
TEXT_KEY = "text"
_PART = re.compile(r"part-\d{6}\.parquet")
#: How many jobs an error lists.
_NAMED = 5


class FinishedJob(NamedTuple):
    """A job that is complete."""

    #: The job's own folder.
    folder: str
    vector_space: str
    rows: int
    #: The column that has the texts, if the job copied it.
    text: str
    parts: Sequence[StoredFile]


def find_job(source: str) -> FinishedJob:
    """Find the job in a folder, or the only one below it.

    Raises:
        LoadError: If there is none, several, or one that is not complete.
        BatchError: If the folder cannot be read.
    """
    opened = open_folder(source)
    names = opened.folders()
    if "_job" not in names:
        return _finished(f"{source.rstrip('/')}/{_only_job(source, names)}")
    return _finished(source.rstrip("/"))


def metadata_columns(job: FinishedJob, chosen: Sequence[str] | None) -> dict[str, str]:
    """Return the columns to load by their metadata keys.

    The text is loaded as `text` if the job copied it, whatever its column's name.

    Args:
        job: The job.
        chosen: Columns; None for all.

    Raises:
        LoadError: If a column does not exist, or AWS cannot take it.
    """
    if not job.parts:
        return {}
    schema = _schema(open_folder(job.folder), job.parts[0])
    found = [name for name in schema.names if name not in {ID_COLUMN, EMBEDDING_COLUMN}]
    names = found if chosen is None else list(chosen)
    missing = [name for name in names if name not in found]
    if missing:
        raise LoadError(
            f"The job has no column {', '.join(missing)}; it has {', '.join(found) or 'none'}. "
            "`embed batch start --metadata COLUMN` copies a column of its input."
        )
    if job.text in found and job.text not in names:
        names.append(job.text)
    columns = {(TEXT_KEY if name == job.text else name): name for name in names}
    if len(columns) != len(names):
        raise LoadError(f"Two columns would be loaded as {TEXT_KEY}: {job.text} and {TEXT_KEY}.")
    if len(columns) > MAX_KEYS:
        raise LoadError(
            f"{len(columns)} columns are to be loaded; AWS takes {MAX_KEYS} keys for a vector. "
            "Choose them with --metadata."
        )
    for name in names:
        _check_type(name, schema.field(name).type)
    return columns


def check_schema(schema: Any, *, name: str, vector_space: str, dimension: int) -> None:
    """Check that a part has the index's vectors.

    Raises:
        VectorSpaceError: If they are of another vector space, or have another dimension.
        LoadError: If they are not float32.
    """
    space = (schema.metadata or {}).get(VECTOR_SPACE_KEY.encode(), b"").decode()
    if space != vector_space:
        raise VectorSpaceError(
            f"{name} has vectors of {space or 'an unknown vector space'}; the load is of "
            f"{vector_space}."
        )
    kind = schema.field(EMBEDDING_COLUMN).type
    if not arrow.types.is_fixed_size_list(kind) or kind.value_type != arrow.float32():
        raise LoadError(
            f"{name} has vectors of the type {kind}; S3 Vectors takes float32. Start the batch job "
            "without --dtype."
        )
    if kind.list_size != dimension:
        raise VectorSpaceError(
            f"{name} has vectors of {kind.list_size} dimensions; the index has {dimension}."
        )


def _only_job(source: str, names: Sequence[str]) -> str:
    jobs = [
        name for name in names if "_job" in open_folder(f"{source.rstrip('/')}/{name}").folders()
    ]
    if len(jobs) == 1:
        return jobs[0]
    if not jobs:
        raise LoadError(f"{source} has no batch job. `embed batch start` makes one.")
    listed = ", ".join(jobs[:_NAMED]) + (", ..." if len(jobs) > _NAMED else "")
    raise LoadError(
        f"{source} has {len(jobs)} batch jobs ({listed}). Give the folder of one of them."
    )


def _finished(folder: str) -> FinishedJob:
    opened = open_folder(folder)
    described: dict[str, Any] = orjson.loads(opened.read(JOB_FILE))
    if opened.find(RESULT_FILE) is None:
        raise LoadError(f"The job in {folder} is not complete: `embed batch resume` continues it.")
    result: dict[str, Any] = orjson.loads(opened.read(RESULT_FILE))
    parts = [file for file in opened.files() if _PART.fullmatch(file.key)]
    if len(parts) != result["shards"]:
        raise LoadError(
            f"{folder} has {len(parts)} parts; the job wrote {result['shards']}. Start the batch "
            "job again to make the missing ones."
        )
    return FinishedJob(
        folder, result["vector_space"], result["rows"], described["job"]["text"], parts
    )


def _schema(folder: Folder, part: StoredFile) -> Any:
    try:
        return pyarrow.parquet.read_schema(io.BufferedReader(folder.open(part)))
    except arrow.ArrowException as error:
        raise LoadError(f"{folder.name}/{part.key} is not a Parquet file.") from error


def _check_type(name: str, kind: Any) -> None:
    types = arrow.types
    inner = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else kind
    if types.is_dictionary(inner):
        inner = inner.value_type
    accepted = (
        types.is_string,
        types.is_large_string,
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_date,
        types.is_time,
        types.is_timestamp,
        types.is_null,
    )
    if not any(accept(inner) for accept in accepted):
        raise LoadError(
            f"The column {name} has the type {kind}, which cannot be metadata: text, numbers, "
            "booleans, dates, and lists of these are allowed. Choose columns with --metadata."
        )
