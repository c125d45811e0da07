"""Lambda's entry for the steps of a load's state machine: `handler(event, context)`.

No model is loaded: the vectors are in the parts.
"""

import os
from collections.abc import Mapping
from typing import Any

from embedder.core.settings import Settings
from jobs.embed.logged_step import run_logged
from jobs.ingest.steps import Steps

__all__ = ["handler"]

#: The metrics of a part: each with its unit, and its name in the step's result.
_METRICS = {
    "LoadedVectors": ("Count", "loaded"),
    "RejectedVectors": ("Count", "rejected"),
    "LoadDuration": ("Seconds", "seconds"),
}
_settings = Settings.from_env(os.environ)
_steps = Steps()


def handler(event: Mapping[str, Any], context: Any) -> Any:
    """Run a step of a load, and log it as `run_logged` does."""
    return run_logged(
        _steps.run, event, context, settings=_settings, message="load", metrics=_METRICS
    )
