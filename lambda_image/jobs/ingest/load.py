"""A load: which job to load, into which index, and the files that record how far it is.

A load's records are in a folder of the job, one folder for each load and each of its rounds:

    _load/ID/0/load.json            the settings
    _load/ID/0/parts.jsonl          the plan, one part a line
    _load/ID/0/done/….json          the counts of a part that is loaded
    _load/ID/0/rejected/….jsonl     rows that cannot be loaded, with the reasons
    _load/ID/0/manifest.json        the result, written when the load is complete
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import orjson

from jobs.embed.storage import StoredFile
from jobs.ingest.errors import LoadError

__all__ = [
    "DONE_FOLDER",
    "LOAD_FILE",
    "PARTS_FILE",
    "RESULT_FILE",
    "Load",
    "LoadPlan",
    "Part",
    "load_id",
]

LOAD_FILE = "load.json"
PARTS_FILE = "parts.jsonl"
RESULT_FILE = "manifest.json"
DONE_FOLDER = "done"
_ID_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The settings of a load.

    Raises:
        LoadError: If a value is not allowed.
    """

    #: The folder of a batch job, or of its only one: a path, or `s3://bucket/prefix/`.
    source: str
    #: The ARN of the index.
    index: str
    #: The columns to copy to the vectors' metadata; None for all.
    metadata: tuple[str, ...] | None = None
    #: The load fails if more of its rows were rejected. All others are in the index.
    max_rejected_percent: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.max_rejected_percent <= 100:
            raise LoadError(
                f"max_rejected_percent must be from 0 to 100; found {self.max_rejected_percent}."
            )
        names = self.metadata or ()
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise LoadError(f"metadata must name each column once; found {', '.join(twice)}.")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Load":
        """Read a load's settings.

        Raises:
            LoadError: If a setting is unknown or missing, or a value is not allowed.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(value) - set(known))
        missing = [name for name in ("source", "index") if not value.get(name)]
        if unknown or missing:
            problem = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {missing[0]}"
            raise LoadError(f"A load has the settings {', '.join(known)}; {problem}.")
        metadata = value.get("metadata")
        for name, wrong in {
            "source": not isinstance(value["source"], str),
            "index": not isinstance(value["index"], str),
            "metadata": metadata is not None and not _is_list_of_text(metadata),
            "max_rejected_percent": not _is_number(value.get("max_rejected_percent", 0)),
        }.items():
            if wrong:
                raise LoadError(f"{name} has a value of another type: {value[name]!r}.")
        return cls(**{**value, "metadata": None if metadata is None else tuple(metadata)})

    def as_json(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return asdict(self)


class Part(NamedTuple):
    """One Parquet file of the job."""

    key: str
    size: int
    etag: str

    @property
    def file(self) -> StoredFile:
        """The file."""
        return StoredFile(self.key, self.size, self.etag)

    @property
    def done_key(self) -> str:
        """The path of the part's counts in the load's folder."""
        return f"{DONE_FOLDER}/{self.key}.json"

    @property
    def rejected_key(self) -> str:
        """The path of the list of the part's rejected rows in the load's folder."""
        return f"rejected/{self.key}.jsonl"


class LoadPlan(NamedTuple):
    """A planned load."""

    #: The load's own folder.
    folder: str
    #: The job's.
    job: str
    index_arn: str
    vector_space: str
    dimension: int
    non_filterable: tuple[str, ...]
    #: The columns by their metadata keys.
    columns: Mapping[str, str]
    #: The rows of the job.
    rows: int
    max_rejected_percent: float
    parts: tuple[Part, ...] = ()


def load_id(job: str, index: str, columns: Mapping[str, str]) -> str:
    """Return the name of a load: equal jobs, indexes and columns have equal names."""
    described = orjson.dumps([job, index, columns], option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(described).hexdigest()[:_ID_DIGITS]


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
