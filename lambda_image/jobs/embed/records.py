"""The rows of a shard: texts with their ids and metadata, or the reason why a row has none."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from jobs.embed.job import Job

__all__ = ["Record", "record_of"]


class Record(NamedTuple):
    """A row of an input file. It has either a text or a problem."""

    #: Where the row begins: an offset in bytes, or for Parquet the number of the row, from 0.
    position: int
    id: str
    text: str
    #: The values of the job's metadata fields, in their order.
    metadata: tuple[Any, ...] = ()
    #: Why the row cannot be embedded. It quotes no text.
    problem: str | None = None


def record_of(
    values: Mapping[str, Any], job: Job, *, file: str, position: int, typed: bool = False
) -> Record:
    """Make the record of a row from its fields.

    Args:
        values: The fields.
        job: Names the fields to use.
        file: The name of the file, for the ids of rows that have none.
        position: See `Record.position`.
        typed: Whether metadata keeps its types, as in Parquet. JSON's become text, because a
            field may have another type in the next row.
    """
    row_id: Any = f"{file}:{position}" if job.id is None else values.get(job.id)
    text = values.get(job.text)
    problem = _problem(values, job, row_id, text)
    if problem is not None:
        return Record(position, _as_id(row_id), "", problem=problem)
    metadata = tuple(values.get(name) for name in job.metadata)
    return Record(
        position, _as_id(row_id), text or "", metadata if typed else tuple(map(_as_text, metadata))
    )


def _problem(values: Mapping[str, Any], job: Job, row_id: Any, text: Any) -> str | None:
    if job.text not in values:
        return f"has no field {job.text!r}; it has {_names(list(values))}"
    if not isinstance(text, str):
        return f"has no text in {job.text!r}: {type(text).__name__}"
    if not text.strip():
        return f"has no text in {job.text!r}: it is empty"
    if row_id is None or isinstance(row_id, (dict, list)) or not str(row_id):
        return f"has no id in {job.id!r}"
    for name, value in ((job.text, text), (job.id, str(row_id))):
        if not _is_unicode(value):
            return f"is not valid Unicode in {name!r}"
    return None


def _as_id(value: Any) -> str:
    return "" if value is None else str(value).encode(errors="replace").decode()


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value.encode(errors="replace").decode() if value else value
    return orjson.dumps(value).decode()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) or "no fields"
