"""Additions around a request: keys, metrics, traces. What is off is not imported."""

import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from embedder.core.errors import SettingsError
from embedder.server.settings import PREFIX, ServerSettings

if TYPE_CHECKING:
    from embedder.server.keys import Keys
    from embedder.server.metrics import Metrics
    from embedder.server.queue import BatchingSession
    from embedder.server.traces import Tracer


class Hooks(NamedTuple):
    """What is on; None is off, and costs a request nothing."""

    keys: "Keys | None" = None
    metrics: "Metrics | None" = None
    tracer: "Tracer | None" = None


def load_hooks(settings: ServerSettings, queue: "BatchingSession") -> Hooks:
    """Load what the settings turn on.

    Raises:
        SettingsError: if the keys cannot be used, or the server would be open to all without being
            told so.
    """
    keys, metrics, tracer = _keys(settings), None, None
    if settings.metrics_key and keys is None:
        raise SettingsError("--metrics-key needs keys, and the server has none.")
    if not settings.no_metrics:
        from embedder.server.metrics import Metrics  # noqa: PLC0415

        metrics = Metrics(queue)
    if settings.otlp_endpoint is not None:
        from embedder.server.traces import Tracer  # noqa: PLC0415

        tracer = Tracer(settings.otlp_endpoint)
    return Hooks(keys, metrics, tracer)


def _keys(settings: ServerSettings) -> "Keys | None":
    given = [settings.keys_file is not None, settings.keys is not None, settings.no_keys]
    if not any(given):
        raise SettingsError(
            "The server has no keys, so that anyone who reaches its port could use it. Give "
            "--keys-file with a file that `embedding-kit embedder.server.new_key NAME` makes, or "
            "--no-keys if everyone may call, for example behind a proxy that checks callers."
        )
    if sum(given) > 1:
        raise SettingsError(
            f"Only one of --keys-file, {PREFIX}KEYS and --no-keys can be given; found {sum(given)}."
        )
    if settings.no_keys:
        return None
    from embedder.server.keys import Keys, read_keys_file  # noqa: PLC0415

    file = settings.keys_file
    if file is not None:
        return Keys(partial(read_keys_file, file), source=file, report=_report)
    # A process keeps its variables as it was started with.
    return Keys(lambda: settings.keys or "", source=f"{PREFIX}KEYS")


def _report(error: SettingsError) -> None:
    sys.stderr.write(f"error: {error} The keys from before stay valid.\n")
    sys.stderr.flush()
