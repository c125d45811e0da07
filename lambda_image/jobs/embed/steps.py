"""The steps of a job's state machine: plan it, embed each shard, check the result.

Each step gets an event and returns values for JSON. All other state is in the job's folder, so that
a step may run twice, or on another machine.
"""

import time
from collections.abc import Mapping
from typing import Any

from embedder.core.engine import Engine
from jobs.embed.errors import BatchError, ChangedModelError
from jobs.embed.job import Job, Shard
from jobs.embed.job_files import SHARDS_FILE
from jobs.embed.logged_step import Step, run_step
from jobs.embed.parts import Counts
from jobs.embed.planning import LAMBDA_SCANNED_BYTES
from jobs.embed.progress import progress_key
from jobs.embed.run import finish_job, load_plan, plan_job
from jobs.embed.storage import open_folder
from jobs.embed.worker import embed_shard

__all__ = ["RESULTS_FOLDER", "Steps"]

#: Where the state machine lists what became of each shard.
RESULTS_FOLDER = "_job/results"


class Steps:
    """Runs the steps with one model.

    Args:
        engine: The model.
        memory_mb: The memory of the Lambda function, for the records from which costs follow.
    """

    def __init__(self, engine: Engine, *, memory_mb: int = 0) -> None:
        self._engine = engine
        self._memory_mb = memory_mb
        self._steps: dict[str, Step] = {
            "plan": self.plan,
            "shard": self.shard,
            "finish": self.finish,
        }

    def run(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Run the step that an event names.

        Raises:
            BatchError: If the event names none, or the step fails.
        """
        return run_step(self._steps, event)

    def plan(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Plan the job that `event["job"]` describes, with `event["defaults"]` for the rest.

        Returns:
            Where the plan is: `bucket` and `shards_key`; the number of `shards`; the job's `folder`
            and `id`; and `results_prefix`, for the records of the state machine.

        Raises:
            BatchError: If the job cannot be planned, or a folder is not in S3.
        """
        job = Job.from_json({**event.get("defaults", {}), **event.get("job", {})})
        for name, url in (("source", job.source), ("destination", job.destination)):
            if not url.startswith("s3://"):
                raise BatchError(f"{name} must be s3://BUCKET/PREFIX; found {url}.")
        plan = plan_job(job, self._engine.manifest, most_scanned=LAMBDA_SCANNED_BYTES)
        bucket, _, prefix = plan.folder.removeprefix("s3://").partition("/")
        return {
            "id": plan.id,
            "folder": plan.folder,
            "bucket": bucket,
            "shards_key": f"{prefix}/{SHARDS_FILE}",
            "results_prefix": f"{prefix}/{RESULTS_FOLDER}",
            "shards": len(plan.shards),
        }

    def shard(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Embed `event["shard"]`, a line of the plan in `event["folder"]`.

        Returns:
            The name of the `part`, its counts, whether this run `written` it, and the `seconds`.

        Raises:
            ChangedInputError: If the input file is not the one that was planned.
            ChangedModelError: If the model is not the one that the job was planned with.
            BatchError: If a file cannot be read or written.
        """
        began = time.monotonic()
        plan = load_plan(event["folder"], shards=False)
        space = self._engine.vector_space(plan.job.dimensions)
        if space != plan.vector_space:
            raise ChangedModelError(
                f"Job {plan.id} was planned with {plan.vector_space}; the model is now {space}. "
                "Start the job again: it becomes a new job with this model."
            )
        shard = Shard(**event["shard"])
        source, output = open_folder(plan.job.source), open_folder(plan.folder)

        def report(counts: Counts) -> None:
            seconds = time.monotonic() - began
            key = progress_key(shard, counts, seconds=seconds, memory_mb=self._memory_mb)
            output.write(key, b"")

        outcome = embed_shard(self._engine, source, output, shard, plan.job, report=report)
        return {
            "part": shard.part,
            **outcome.counts._asdict(),
            "written": outcome.written,
            "seconds": round(outcome.seconds, 3),
        }

    def finish(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check that the job in `event["folder"]` is complete.

        Returns:
            The result, with the `folder`.

        Raises:
            IncompleteJobError: If a shard is missing.
            RejectedRowsError: If more rows were rejected than the job allows.
        """
        result = finish_job(load_plan(event["folder"]))
        return {"folder": event["folder"], **result._asdict()}
