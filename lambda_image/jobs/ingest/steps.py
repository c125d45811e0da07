"""The steps of a load's state machine: plan it, load each part, check the result.

Each step gets an event and returns values for JSON. All other state is in the load's folder and in
the index, so that a step may run twice, or on another machine.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jobs.embed.logged_step import Step, run_step
from jobs.embed.storage import open_folder
from jobs.ingest.errors import LoadError
from jobs.ingest.index_client import IndexClient
from jobs.ingest.load import PARTS_FILE, Load, Part
from jobs.ingest.loading import load_part
from jobs.ingest.pace import Pace
from jobs.ingest.run import finish_load, plan_load, read_plan

__all__ = ["RESULTS_FOLDER", "Steps"]

#: Where the state machine lists what became of each part.
RESULTS_FOLDER = "results"


class Steps:
    """Runs the steps.

    Args:
        connect: Returns the client of the index with an ARN.
    """

    def __init__(self, connect: Callable[[str], IndexClient] = IndexClient) -> None:
        self._connect = cache(connect)
        self._steps: dict[str, Step] = {
            "plan": self.plan,
            "part": self.part,
            "finish": self.finish,
        }

    def run(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Run the step that an event names.

        Raises:
            BatchError: If the event names none, or the step fails.
        """
        return run_step(self._steps, event)

    def plan(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Plan the load that `event["job"]` describes, with `event["defaults"]` for the rest.

        Returns:
            Where the plan is: `parts_key`; the number of `parts`; the load's `folder`; and
            `results_prefix`, for the records of the state machine.

        Raises:
            LoadError: If the load cannot be planned, a folder is not in S3, or the index is not
                the state machine's own.
        """
        defaults, given = event.get("defaults", {}), event.get("job", {})
        load = Load.from_json({**defaults, **given})
        if not load.source.startswith("s3://"):
            raise LoadError(f"source must be s3://BUCKET/PREFIX; found {load.source}.")
        own = defaults.get("index")
        if own and load.index != own:
            raise LoadError(f"This state machine loads the index {own}; found {load.index}.")
        plan = plan_load(load, self._connect(load.index))
        prefix = plan.folder.removeprefix("s3://").partition("/")[2]
        return {
            "folder": plan.folder,
            "parts_key": f"{prefix}/{PARTS_FILE}",
            "results_prefix": f"{prefix}/{RESULTS_FOLDER}",
            "parts": len(plan.parts),
        }

    def part(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Load `event["part"]`, a line of the plan in `event["folder"]`.

        `event["vectors_per_second"]` is the rate of this worker.

        Returns:
            The name of the `part`, its counts, whether this run has `written` it, and the
            `seconds`.

        Raises:
            LoadError: If the part cannot be loaded.
            UnavailableError: If S3 Vectors throttles or does not answer.
            BatchError: If a file cannot be read or written.
        """
        plan = read_plan(event["folder"], parts=False)
        part = Part(**event["part"])
        outcome = load_part(
            open_folder(plan.job),
            open_folder(plan.folder),
            plan,
            part,
            index=self._connect(plan.index_arn),
            pace=Pace(event["vectors_per_second"]),
        )
        return {
            "part": part.key,
            **outcome.counts._asdict(),
            "written": outcome.written,
            "seconds": round(outcome.seconds, 3),
        }

    def finish(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check that the load in `event["folder"]` is complete.

        Returns:
            The result, with the `folder`.

        Raises:
            IncompleteLoadError: If a part is missing.
            RejectedVectorsError: If more rows were rejected than the load allows.
        """
        plan = read_plan(event["folder"])
        return {"folder": plan.folder, **finish_load(plan, self._connect(plan.index_arn))._asdict()}
