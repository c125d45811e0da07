"""Lambda's entry for the watch. The model is loaded when the module is imported."""

import os

import orjson

from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine
from embedder.core.settings import Settings
from jobs.ingest.run import IngestSettings
from jobs.steps import logged, read_settings
from jobs.watch.run import WatchSettings, WatchSteps

_settings = Settings.from_env(os.environ)
_engine = Engine.load(
    load_artifact(_settings.artifact),
    threads=_settings.threads,
    max_characters=_settings.max_characters,
)
_watch = WatchSteps(
    read_settings(
        IngestSettings, orjson.loads(os.environ["EMBEDDING_INGEST"]), name="EMBEDDING_INGEST"
    ),
    read_settings(
        WatchSettings, orjson.loads(os.environ["EMBEDDING_WATCH"]), name="EMBEDDING_WATCH"
    ),
    _engine,
)
handler = logged(_watch, _settings)
