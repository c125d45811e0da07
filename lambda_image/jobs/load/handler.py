"""Lambda's entry for the steps of a load's state machine: `handler(event, context)`.

No model is loaded: the vectors are in the parts.
"""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from embedder.core.settings import EmbedderSettings
from jobs.errors import BatchError
from jobs.load.index_client import IndexClient
from jobs.load.run import LAYOUT, LoadPart, LoadSettings, finish_load, plan_load, read_plan
from jobs.load.worker import RateLimit, load_part
from jobs.steps import Steps, given_settings, logged, read_settings
from jobs.storage import open_folder


class LoadSteps(Steps):
    """Runs the steps."""

    message = "load"
    item = "part"
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "LoadedVectors": ("Count", "loaded"),
        "RejectedVectors": ("Count", "rejected"),
        "LoadDuration": ("Seconds", "seconds"),
    }

    def __init__(self) -> None:
        #: Returns the client of the index with an ARN.
        self._connect = cache(IndexClient)

    def plan(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Plan the load that `event["job"]` describes, with `event["defaults"]` for the rest."""
        settings = read_settings(LoadSettings, given_settings(event), name="A load")
        if not settings.source.startswith("s3://"):
            raise BatchError(f"source must be s3://BUCKET/PREFIX; found {settings.source}.")
        own = event.get("defaults", {}).get("index")
        if own and settings.index != own:
            raise BatchError(f"This state machine loads the index {own}; found {settings.index}.")
        plan = plan_load(settings, self._connect(settings.index))
        return {**LAYOUT.place(plan.folder), "parts": len(plan.parts)}

    def work(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Load `event["part"]`, a line of the plan, with up to `event["vectors_per_second"]`."""
        plan = read_plan(event["folder"], parts=False)
        return load_part(
            open_folder(plan.job),
            open_folder(plan.folder),
            plan,
            LoadPart(**event["part"]),
            index=self._connect(plan.index_arn),
            limit=RateLimit(event["vectors_per_second"]),
        ).as_json()

    def finish(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check that the load in `event["folder"]` is complete."""
        plan = read_plan(event["folder"])
        return {"folder": plan.folder, **finish_load(plan, self._connect(plan.index_arn))._asdict()}


handler = logged(LoadSteps(), EmbedderSettings.from_env(os.environ))
