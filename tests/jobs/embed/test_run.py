"""A job is planned, continued and checked."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.embed.errors import BatchError, IncompleteJobError, RejectedRowsError
from jobs.embed.run import finish_job, load_plan, missing_shards, plan_job
from jobs.embed.storage import open_folder
from jobs.embed.worker import embed_shard


@pytest.fixture
def plan(source: Path, job, engine):
    lines = [json.dumps({"id": f"d{n}", "text": f"text {n}"}) for n in range(40)]
    (source / "a.jsonl").write_text("\n".join([*lines[:30], "{broken", *lines[30:]]))
    return plan_job(replace(job, shard_bytes=300, max_rejected_percent=5.0), engine.manifest)


def embed(engine, plan, shards) -> None:
    output = open_folder(plan.folder)
    for shard in shards:
        embed_shard(engine, open_folder(plan.job.source), output, shard, plan.job)


def test_a_plan_is_read_as_it_was_written(plan) -> None:
    """The plan in the job's folder is equal to the one that was made."""
    assert load_plan(plan.folder) == plan


def test_a_finished_job_adds_up(engine, plan) -> None:
    """The result has the sums of all shards, and is written into the job's folder."""
    embed(engine, plan, plan.shards)
    result = finish_job(plan)
    assert (result.rows, result.rejected, result.shards) == (40, 1, len(plan.shards))
    assert result.vector_space == engine.vector_space()
    written = json.loads(Path(plan.folder, "_job", "manifest.json").read_text())
    assert written == {"job": plan.id, **result._asdict()}


def test_an_incomplete_job_names_its_shards_and_can_be_continued(engine, plan) -> None:
    """After a lost shard the job is incomplete; embedding the missing one completes it."""
    embed(engine, plan, plan.shards[1:])
    message = rf"1 of {len(plan.shards)} shards of job {plan.id} .*\(part-000000\)\. Start"
    with pytest.raises(IncompleteJobError, match=message):
        finish_job(plan)
    assert not Path(plan.folder, "_job", "manifest.json").exists()
    assert missing_shards(plan) == [plan.shards[0]]
    embed(engine, plan, missing_shards(plan))
    assert finish_job(plan).rows == 40


def test_too_many_rejected_rows_fail_the_job(engine, plan) -> None:
    """The error has the numbers; with a higher limit the finished job passes without new work."""
    strict = plan._replace(job=replace(plan.job, max_rejected_percent=2.0))
    embed(engine, strict, plan.shards)
    message = r"1 of 41 rows were rejected \(2\.4%\); the job allows 2%\. .*/_rejected/ lists them"
    with pytest.raises(RejectedRowsError, match=message):
        finish_job(strict)
    assert finish_job(plan).rejected == 1


def test_the_same_job_continues_and_another_does_not(engine, plan, source: Path) -> None:
    """Planned again, a job has the same folder. With a changed input it has another."""
    assert plan_job(plan.job, engine.manifest) == plan
    with (source / "a.jsonl").open("a") as file:
        file.write('\n{"id": "new", "text": "new"}')
    changed = plan_job(plan.job, engine.manifest)
    assert changed.folder != plan.folder
    assert Path(plan.folder).parent == Path(changed.folder).parent


def test_a_job_without_rows_finishes(engine, job, source: Path) -> None:
    """An empty input gives a finished job of 0 rows."""
    result = finish_job(plan_job(job, engine.manifest))
    assert (result.rows, result.rejected, result.shards, result.rejected_percent) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimensions": 7}, "dimensions must be one of 32, 16, 8; found 7"),
        ({"prompt": "q"}, r"prompt must be one of \(the model has none\); found 'q'"),
    ],
)
def test_a_job_that_the_model_cannot_do_is_refused(engine, job, change, message) -> None:
    """The model's dimensions and prompts are checked in the plan, before anything is embedded."""
    with pytest.raises(BatchError, match=message):
        plan_job(replace(job, **change), engine.manifest)


def test_a_part_of_another_space_is_refused(engine, plan) -> None:
    """Vectors of two spaces in one folder are an error, not a mixture."""
    embed(engine, plan, plan.shards)
    with pytest.raises(BatchError, match=r"has vectors of small-model.*; the job's are of other"):
        finish_job(plan._replace(vector_space="other"))


def test_a_folder_without_a_plan_is_an_error(tmp_path: Path) -> None:
    """The error names the file that is missing."""
    with pytest.raises(BatchError, match=r"_job/job\.json cannot be read"):
        load_plan(str(tmp_path))
