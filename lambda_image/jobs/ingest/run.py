"""The steps of a load around its parts: plan it, and check in the end that it is complete."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import orjson

from jobs.embed.storage import Folder, open_folder
from jobs.ingest.errors import (
    IncompleteLoadError,
    LoadError,
    RejectedVectorsError,
    VectorSpaceError,
)
from jobs.ingest.index_client import IndexClient
from jobs.ingest.load import (
    DONE_FOLDER,
    LOAD_FILE,
    PARTS_FILE,
    RESULT_FILE,
    Load,
    LoadPlan,
    Part,
    load_id,
)
from jobs.ingest.loading import Counts
from jobs.ingest.source import find_job, metadata_columns

__all__ = ["Result", "finish_load", "missing_parts", "plan_load", "read_plan"]

#: How many records are read at a time in the end.
_READERS = 32
#: How many missing parts an error names.
_NAMED = 5


class Result(NamedTuple):
    """A finished load: `rows` is the sum of the three numbers after it."""

    rows: int
    loaded: int
    rejected: int
    #: Rows whose id another row of the same part has; the last one is in the index.
    replaced: int
    parts: int
    vector_space: str
    index_arn: str


def plan_load(load: Load, index: IndexClient) -> LoadPlan:
    """Plan a load and write the plan into its folder.

    A load that is not complete is continued. After a complete one, the same settings give a new
    round, which writes all vectors again.

    Raises:
        VectorSpaceError: If the index has another vector space than the job.
        LoadError: If the job, a column or the index does not fit.
        BatchError: If a folder cannot be read or written.
        UnavailableError: If S3 Vectors does not answer.
    """
    job = find_job(load.source)
    columns = metadata_columns(job, load.metadata)
    # Of a vector space, `.../384`: the number of dimensions.
    dimension = job.vector_space.rpartition("/")[2]
    found = index.describe()
    if str(found.dimension) != dimension:
        raise VectorSpaceError(
            f"The index has {found.dimension} dimensions; the job's vectors have {dimension}."
        )
    found = index.claim(job.vector_space)
    plan = LoadPlan(
        folder=_round_folder(job.folder, load_id(job.folder, index.arn, columns)),
        job=job.folder,
        index_arn=index.arn,
        vector_space=job.vector_space,
        dimension=found.dimension,
        non_filterable=found.non_filterable,
        columns=columns,
        rows=job.rows,
        max_rejected_percent=load.max_rejected_percent,
        parts=tuple(Part(*file) for file in job.parts),
    )
    output = open_folder(plan.folder, create=True)
    lines = [orjson.dumps(part._asdict(), option=orjson.OPT_APPEND_NEWLINE) for part in plan.parts]
    output.write(PARTS_FILE, b"".join(lines))
    described = plan._replace(parts=())._asdict()
    output.write(LOAD_FILE, orjson.dumps(described, option=orjson.OPT_INDENT_2))
    return plan


def read_plan(folder: str, *, parts: bool = True) -> LoadPlan:
    """Read the plan of a load from its folder.

    Args:
        folder: The load's own folder.
        parts: Whether to read the parts too. Without them the plan has none.

    Raises:
        BatchError: If there is none.
    """
    opened = open_folder(folder)
    described: dict[str, Any] = orjson.loads(opened.read(LOAD_FILE))
    lines = opened.read(PARTS_FILE).splitlines() if parts else []
    return LoadPlan(
        **{
            **described,
            "non_filterable": tuple(described["non_filterable"]),
            "parts": tuple(Part(**orjson.loads(line)) for line in lines),
        }
    )


def missing_parts(plan: LoadPlan) -> list[Part]:
    """Return the parts that are not loaded yet."""
    found = {file.key for file in open_folder(plan.folder).files(DONE_FOLDER)}
    return [part for part in plan.parts if part.done_key not in found]


def finish_load(plan: LoadPlan, index: IndexClient) -> Result:
    """Compare what is loaded with the job, and write the result.

    Raises:
        IncompleteLoadError: If a part is not loaded.
        RejectedVectorsError: If more rows were rejected than the load allows. The result is
            written.
        VectorSpaceError: If another load has recorded another vector space meanwhile.
        LoadError: If the counts do not add up.
    """
    missing = missing_parts(plan)
    if missing:
        names = ", ".join(part.key for part in missing[:_NAMED])
        raise IncompleteLoadError(
            f"{len(missing)} of {len(plan.parts)} parts are not loaded yet ({names}"
            f"{', ...' if len(missing) > _NAMED else ''}). Start the load again to continue it."
        )
    index.claim(plan.vector_space)
    folder = open_folder(plan.folder)
    with ThreadPoolExecutor(_READERS) as pool:
        counts = list(pool.map(lambda part: _counts(folder, part), plan.parts))
    result = _result(plan, counts)
    folder.write(RESULT_FILE, orjson.dumps(result._asdict(), option=orjson.OPT_INDENT_2))
    percent = 100 * result.rejected / max(1, result.rows)
    if percent > plan.max_rejected_percent:
        raise RejectedVectorsError(
            f"{result.rejected} of {result.rows} rows were rejected ({percent:.1f}%); the load "
            f"allows {plan.max_rejected_percent:g}%. {plan.folder}/rejected/ lists them with the "
            "reasons. All others are in the index."
        )
    return result


def _round_folder(job: str, load: str) -> str:
    """Return the folder of the first round that is not complete."""
    opened = open_folder(job)
    complete = {
        file.key.split("/")[2]
        for file in opened.files(f"_load/{load}")
        if file.key.count("/") == 3 and file.key.endswith(f"/{RESULT_FILE}")
    }
    number = next(n for n in range(len(complete) + 1) if str(n) not in complete)
    return f"{job}/_load/{load}/{number}"


def _counts(folder: Folder, part: Part) -> Counts:
    return Counts(**orjson.loads(folder.read(part.done_key)))


def _result(plan: LoadPlan, counts: Sequence[Counts]) -> Result:
    loaded = sum(count.loaded for count in counts)
    rejected = sum(count.rejected for count in counts)
    replaced = sum(count.replaced for count in counts)
    rows = loaded + rejected + replaced
    if rows != plan.rows:
        raise LoadError(
            f"The parts have {rows} rows; the result of the job says {plan.rows}. Start the batch "
            "job again to compare them."
        )
    return Result(
        rows, loaded, rejected, replaced, len(plan.parts), plan.vector_space, plan.index_arn
    )
