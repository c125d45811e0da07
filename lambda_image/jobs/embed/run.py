"""The steps of a job around its shards: plan it, and check in the end that it is complete."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import orjson

from embedder.core.artifact import Manifest
from jobs.embed.errors import BatchError, IncompleteJobError, RejectedRowsError
from jobs.embed.job import Job, Shard, job_id
from jobs.embed.job_files import JOB_FILE, RESULT_FILE, SHARDS_FILE
from jobs.embed.parts import Counts, read_counts
from jobs.embed.planning import plan_shards, shard_bytes
from jobs.embed.storage import open_folder
from jobs.embed.worker import part_key

__all__ = [
    "Plan",
    "Result",
    "finish_job",
    "load_plan",
    "missing_shards",
    "plan_job",
]

#: How many parts are read at a time in the end. In S3, each takes some requests.
_READERS = 32
#: How many missing shards an error names.
_NAMED = 5


class Plan(NamedTuple):
    """A planned job."""

    id: str
    job: Job
    shards: Sequence[Shard]
    vector_space: str
    #: The job's own folder.
    folder: str


class Result(NamedTuple):
    """A finished job."""

    rows: int
    rejected: int
    tokens: int
    shards: int
    vector_space: str

    @property
    def rejected_percent(self) -> float:
        """The share of rejected rows among all."""
        return 100 * self.rejected / max(1, self.rows + self.rejected)


def plan_job(job: Job, manifest: Manifest, *, most_scanned: int | None = None) -> Plan:
    """Plan a job and write the plan into the job's folder.

    Equal inputs, settings and models give the same folder, so that a job that is started again
    continues.

    Args:
        job: The job.
        manifest: The model's.
        most_scanned: The most bytes of CSV and gzip content, which must be read; None for any.

    Raises:
        BatchError: If the model or the input does not fit the job.
    """
    _check_model(job, manifest)
    size = shard_bytes(job, manifest)
    source = open_folder(job.source)
    shards = list(plan_shards(source, job, size=size, most_scanned=most_scanned))
    dimensions = job.dimensions or manifest.full_dimensions
    space = manifest.vector_space_of(dimensions=dimensions)
    name = job_id(job, shards, vector_space=space)
    plan = Plan(name, job, shards, space, f"{job.destination.rstrip('/')}/{name}")
    output = open_folder(plan.folder, create=True)
    output.write(
        SHARDS_FILE,
        b"".join(
            orjson.dumps(shard.as_json(), option=orjson.OPT_APPEND_NEWLINE) for shard in shards
        ),
    )
    described = {"id": name, "vector_space": space, "job": job.as_json()}
    output.write(JOB_FILE, orjson.dumps(described, option=orjson.OPT_INDENT_2))
    return plan


def load_plan(folder: str, *, shards: bool = True) -> Plan:
    """Read the plan of a job from its folder.

    Args:
        folder: The job's own folder.
        shards: Whether to read the shards too. Without them the plan has none.

    Raises:
        BatchError: If there is none.
    """
    opened = open_folder(folder)
    described: dict[str, Any] = orjson.loads(opened.read(JOB_FILE))
    lines = opened.read(SHARDS_FILE).splitlines() if shards else []
    return Plan(
        described["id"],
        Job.from_json(described["job"]),
        [Shard(**orjson.loads(line)) for line in lines],
        described["vector_space"],
        folder,
    )


def missing_shards(plan: Plan) -> list[Shard]:
    """Return the shards that have no part yet."""
    found = {file.key for file in open_folder(plan.folder).files()}
    return [shard for shard in plan.shards if part_key(shard) not in found]


def finish_job(plan: Plan) -> Result:
    """Compare the parts with the plan, and write the result.

    Raises:
        IncompleteJobError: If a shard has no part.
        RejectedRowsError: If more rows were rejected than the job allows. The result is written.
        BatchError: If a part has vectors of another space.
    """
    missing = missing_shards(plan)
    if missing:
        raise IncompleteJobError(
            f"{len(missing)} of {len(plan.shards)} shards of job {plan.id} are not embedded yet "
            f"({_names(missing)}). Start the job again to continue it."
        )
    folder = open_folder(plan.folder)
    with ThreadPoolExecutor(_READERS) as pool:
        keys = map(part_key, plan.shards)
        result = _result(plan, pool.map(partial(read_counts, folder), keys))
    described = {"job": plan.id, **result._asdict()}
    folder.write(RESULT_FILE, orjson.dumps(described, option=orjson.OPT_INDENT_2))
    if result.rejected_percent > plan.job.max_rejected_percent:
        raise RejectedRowsError(
            f"{result.rejected} of {result.rows + result.rejected} rows were rejected "
            f"({result.rejected_percent:.1f}%); the job allows "
            f"{plan.job.max_rejected_percent:g}%. {plan.folder}/_rejected/ lists them with the "
            "reasons."
        )
    return result


def _check_model(job: Job, manifest: Manifest) -> None:
    """Check that the model has the job's prompt and dimensions.

    Raises:
        BatchError: If not.
    """
    if job.dimensions is not None and job.dimensions not in manifest.dimensions:
        allowed = ", ".join(map(str, manifest.dimensions))
        raise BatchError(f"dimensions must be one of {allowed}; found {job.dimensions}.")
    if job.prompt is not None and job.prompt not in manifest.prompts:
        allowed = ", ".join(manifest.prompts) or "(the model has none)"
        raise BatchError(f"prompt must be one of {allowed}; found {job.prompt!r}.")


def _result(plan: Plan, counts: Iterable[Counts]) -> Result:
    rows = rejected = tokens = shards = 0
    for count in counts:
        if count.vector_space != plan.vector_space:
            raise BatchError(
                f"{plan.folder} has vectors of {count.vector_space}; the job's are of "
                f"{plan.vector_space}."
            )
        rows += count.rows
        rejected += count.rejected
        tokens += count.tokens
        shards += 1
    return Result(rows, rejected, tokens, shards, plan.vector_space)


def _names(shards: Sequence[Shard]) -> str:
    names = ", ".join(shard.part for shard in shards[:_NAMED])
    return names + (", ..." if len(shards) > _NAMED else "")
