"""Lambda's entry for the steps of a job's state machine: `handler(event, context)`.

The model is loaded when the module is imported, once for each execution environment.
"""

import os
from collections.abc import Mapping
from typing import Any

from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine
from embedder.core.settings import Settings
from jobs.embed.logged_step import run_logged
from jobs.embed.steps import Steps

__all__ = ["handle", "handler"]

#: The metrics of a shard: each with its unit, and its name in the step's result.
_METRICS = {
    "Rows": ("Count", "rows"),
    "RejectedRows": ("Count", "rejected"),
    "Tokens": ("Count", "tokens"),
    "ShardDuration": ("Seconds", "seconds"),
}


def handle(steps: Steps, settings: Settings, event: Mapping[str, Any], context: Any) -> Any:
    """Run one step, and log it as `run_logged` does."""
    return run_logged(
        steps.run, event, context, settings=settings, message="batch", metrics=_METRICS
    )


def _load(settings: Settings, *, memory_mb: int) -> Steps:
    engine = Engine.load(
        load_artifact(settings.artifact),
        threads=settings.threads,
        max_characters=settings.max_characters,
    )
    return Steps(engine, memory_mb=memory_mb)


_settings = Settings.from_env(os.environ)
# Lambda sets it to the function's memory.
_steps = _load(_settings, memory_mb=int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "0")))


def handler(event: Mapping[str, Any], context: Any) -> Any:
    """Run a step of a job."""
    return handle(_steps, _settings, event, context)
