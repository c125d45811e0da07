"""Lambda's entry for the steps of a job's state machine: `handler(event, context)`.

The model is loaded when the module is imported, once for each execution environment.
"""

import os

from embedder.core.artifact import load_artifacts
from embedder.core.settings import EmbedderSettings
from jobs.embed.run import EmbedSteps
from jobs.embed.worker import load_engine
from jobs.steps import logged

_settings = EmbedderSettings.from_env(os.environ)
_engine = load_engine(
    load_artifacts(_settings.artifact)[0],
    threads=_settings.threads,
    max_characters=_settings.max_characters,
)
# Lambda sets it to the function's memory.
_memory_mb = int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "0"))

handler = logged(EmbedSteps(_engine, memory_mb=_memory_mb), _settings)
