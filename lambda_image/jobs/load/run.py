"""The job with the loaded output, the plan, and the check in the end that nothing is missing.

The records of a load are in a folder of the job, one folder for each load and each of its
rounds:

    _load/ID/0/load.json            the settings
    _load/ID/0/parts.jsonl          the plan, one part a line
    _load/ID/0/done/….json          the counts of a part that is in the index
    _load/ID/0/rejected/….jsonl     rows that cannot be loaded, with the reasons
    _load/ID/0/results/…            what became of each part, from the state machine
    _load/ID/0/manifest.json        the result, written when the load is complete
"""

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import pyarrow as arrow
import pyarrow.parquet

from jobs.embed.job import EMBEDDING_COLUMN, ID_COLUMN
from jobs.embed.job import LAYOUT as JOB
from jobs.errors import BatchError, VectorSpaceError
from jobs.load.index_client import IndexClient
from jobs.steps import JobLayout
from jobs.storage import Folder, StoredFile, open_folder

LAYOUT = JobLayout(name="load", items="parts", settings_file="load.json", items_file="parts.jsonl")
#: The metadata key of the text.
_TEXT_KEY = "text"
#: Metadata keys of a vector.
_MAX_KEYS = 50
_PART_NAME = re.compile(r"part-\d{6}\.parquet")
#: How many jobs an error lists.
_NAMED = 5
_ID_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Settings of a load: the job, the index and the columns."""

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
            raise BatchError(
                f"max_rejected_percent must be from 0 to 100; found {self.max_rejected_percent}."
            )
        names = self.metadata or ()
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BatchError(f"metadata must name each column once; found {', '.join(twice)}.")


class LoadPart(StoredFile):
    """One Parquet file of the job."""

    @property
    def done_key(self) -> str:
        """The path of the part's counts in the load's folder."""
        return f"done/{self.key}.json"


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
    parts: tuple[LoadPart, ...] = ()


class LoadCounts(NamedTuple):
    """Counts of a loaded part's rows."""

    loaded: int
    rejected: int
    #: Rows with an id that a later row of the part has, too.
    replaced: int


class LoadResult(NamedTuple):
    """A finished load: `rows` is the sum of the three numbers after it."""

    rows: int
    loaded: int
    rejected: int
    #: Rows with the id of another row of the same part; the last one is in the index.
    replaced: int
    parts: int
    vector_space: str
    index_arn: str


class FinishedJob(NamedTuple):
    """A job that is complete."""

    #: The job's own folder.
    folder: str
    vector_space: str
    rows: int
    #: The column that has the texts, if the job copied it.
    text: str
    parts: Sequence[StoredFile]


def plan_load(settings: LoadSettings, index: IndexClient) -> LoadPlan:
    """Plan a load and write the plan into its folder.

    A load that is not complete is continued. After a complete one, the same settings give a new
    round, which writes all vectors again.

    Raises:
        VectorSpaceError: If the index has another vector space than the job.
        BatchError: If the job, a column or the index does not fit.
    """
    job = find_job(settings.source)
    columns = _metadata_columns(job, settings.metadata)
    # Of a vector space, `.../384`: the number of dimensions.
    dimension = job.vector_space.rpartition("/")[2]
    description = index.describe()
    if str(description.dimension) != dimension:
        raise VectorSpaceError(
            f"The index has {description.dimension} dimensions; the job's vectors have {dimension}."
        )
    description = index.claim(job.vector_space)
    plan = LoadPlan(
        folder=_round_folder(job.folder, index.arn, columns),
        job=job.folder,
        index_arn=index.arn,
        vector_space=job.vector_space,
        dimension=description.dimension,
        non_filterable=description.non_filterable,
        columns=columns,
        rows=job.rows,
        max_rejected_percent=settings.max_rejected_percent,
        parts=tuple(LoadPart(*file) for file in job.parts),
    )
    described = plan._replace(parts=())._asdict()
    LAYOUT.write_plan(plan.folder, described, [part._asdict() for part in plan.parts])
    return plan


def read_plan(folder: str, *, parts: bool = True) -> LoadPlan:
    """Read the plan of a load from its folder, with or without the parts."""
    described, items = LAYOUT.read_plan(folder, items=parts)
    described["non_filterable"] = tuple(described["non_filterable"])
    return LoadPlan(**{**described, "parts": tuple(LoadPart(**item) for item in items)})


def read_counts(records: Folder, key: str) -> LoadCounts:
    """Read the counts of a part that is loaded."""
    return LoadCounts(**orjson.loads(records.read(key)))


def finish_load(plan: LoadPlan, index: IndexClient) -> LoadResult:
    """Compare the loaded rows with those of the job, and write the result."""
    counts = LAYOUT.counts(plan.folder, plan.parts, read_counts)
    index.claim(plan.vector_space)
    loaded = sum(count.loaded for count in counts)
    rejected = sum(count.rejected for count in counts)
    replaced = sum(count.replaced for count in counts)
    rows = loaded + rejected + replaced
    if rows != plan.rows:
        raise BatchError(
            f"The parts have {rows} rows; the result of the job says {plan.rows}. Start the batch "
            "job again to compare them."
        )
    result = LoadResult(
        rows, loaded, rejected, replaced, len(plan.parts), plan.vector_space, plan.index_arn
    )
    LAYOUT.finish(
        plan.folder,
        result._asdict(),
        rejected=rejected,
        rows=rows,
        allowed=plan.max_rejected_percent,
    )
    return result


def _round_folder(job: str, index: str, columns: Mapping[str, str]) -> str:
    """Return the folder of the first round that is not complete.

    Equal jobs, indexes and columns are rounds of one load.
    """
    described = orjson.dumps([job, index, columns], option=orjson.OPT_SORT_KEYS)
    folder = f"_load/{hashlib.blake2b(described).hexdigest()[:_ID_DIGITS]}"
    complete = {
        file.key.split("/")[2]
        for file in open_folder(job).files(folder)
        if file.key.count("/") == 3 and file.key.endswith(f"/{LAYOUT.result_file}")
    }
    number = next(n for n in range(len(complete) + 1) if str(n) not in complete)
    return f"{job}/{folder}/{number}"


def find_job(source: str) -> FinishedJob:
    """Find the job in a folder, or the only one below it."""
    folder, names = source.rstrip("/"), open_folder(source).folders()
    return _finished(folder if "_job" in names else f"{folder}/{_only_job(source, names)}")


def _metadata_columns(job: FinishedJob, chosen: Sequence[str] | None) -> dict[str, str]:
    """Return the columns to load by their metadata keys.

    The text is loaded as `text` if the job copied it, whatever its column's name.
    """
    if not job.parts:
        return {}
    schema = _schema(open_folder(job.folder), job.parts[0])
    copied = [name for name in schema.names if name not in {ID_COLUMN, EMBEDDING_COLUMN}]
    names = copied if chosen is None else list(chosen)
    missing = [name for name in names if name not in copied]
    if missing:
        raise BatchError(
            f"The job has no column {', '.join(missing)}; it has {', '.join(copied) or 'none'}. "
            "`embed batch start --metadata COLUMN` copies a column of its input."
        )
    if job.text in copied and job.text not in names:
        names.append(job.text)
    columns = {(_TEXT_KEY if name == job.text else name): name for name in names}
    if len(columns) != len(names):
        raise BatchError(f"Two columns would be loaded as {_TEXT_KEY}: {job.text} and {_TEXT_KEY}.")
    if len(columns) > _MAX_KEYS:
        raise BatchError(
            f"{len(columns)} columns are to be loaded; AWS takes {_MAX_KEYS} keys for a vector. "
            "Choose them with --metadata."
        )
    for name in names:
        _check_type(name, schema.field(name).type)
    return columns


def _only_job(source: str, names: Sequence[str]) -> str:
    jobs = [
        name for name in names if "_job" in open_folder(f"{source.rstrip('/')}/{name}").folders()
    ]
    if len(jobs) == 1:
        return jobs[0]
    if not jobs:
        raise BatchError(f"{source} has no batch job. `embed batch start` makes one.")
    listed = ", ".join(jobs[:_NAMED]) + (", ..." if len(jobs) > _NAMED else "")
    raise BatchError(
        f"{source} has {len(jobs)} batch jobs ({listed}). Give the folder of one of them."
    )


def _finished(folder: str) -> FinishedJob:
    opened = open_folder(folder)
    described: dict[str, Any] = orjson.loads(opened.read(JOB.settings_file))
    if opened.find(JOB.result_file) is None:
        raise BatchError(f"The job in {folder} is not complete: `embed batch resume` continues it.")
    result: dict[str, Any] = orjson.loads(opened.read(JOB.result_file))
    parts = [file for file in opened.files() if _PART_NAME.fullmatch(file.key)]
    if len(parts) != result["shards"]:
        raise BatchError(
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
        raise BatchError(f"{folder.name}/{part.key} is not a Parquet file.") from error


def _check_type(name: str, column: Any) -> None:
    types = arrow.types
    is_list = types.is_list(column) or types.is_large_list(column)
    inner = column.value_type if is_list else column
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
        raise BatchError(
            f"The column {name} has the type {column}, which cannot be metadata: text, numbers, "
            "booleans, dates, and lists of these are allowed. Choose columns with --metadata."
        )
