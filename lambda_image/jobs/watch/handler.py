"""Lambda's entry for the watch."""

from jobs.ingest.run import start
from jobs.steps import logged, read_variable
from jobs.watch.run import WatchSettings, WatchSteps

_settings, _ingest, _engine = start()
_watch = WatchSteps(_ingest, read_variable(WatchSettings, "EMBEDDING_WATCH"), _engine)
handler = logged(_watch, _settings)
