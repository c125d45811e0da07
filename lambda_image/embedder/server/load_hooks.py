"""Loads what the settings turn on around a request; what is off is not imported."""

import sys

from embedder.core.errors import SettingsError
from embedder.server.hooks import Authenticator, Hooks, Metrics, QueueState, Tracer
from embedder.server.settings import PREFIX, ServerSettings

__all__ = ["load_hooks"]


def load_hooks(settings: ServerSettings, queue: QueueState) -> Hooks:
    """Load what the settings turn on.

    Args:
        settings: The server's.
        queue: What waits for the model, for the metrics.

    Raises:
        SettingsError: if the keys cannot be used, or if the server would be open to all without
            being told so.
    """
    authenticator = _authenticator(settings)
    if settings.metrics_key and authenticator is None:
        raise SettingsError("--metrics-key needs keys, and the server has none.")
    if authenticator is None:
        return Hooks(metrics=_metrics(settings, queue), tracer=_tracer(settings))
    from embedder.server.limits import Limits  # noqa: PLC0415

    return Hooks(authenticator, Limits(), _metrics(settings, queue), _tracer(settings))


def _authenticator(settings: ServerSettings) -> Authenticator | None:
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
    from embedder.server.keys import Keys  # noqa: PLC0415

    if settings.keys_file is not None:
        return Keys.from_file(settings.keys_file, report=_report)
    return Keys.from_variable(settings.keys or "", name=f"{PREFIX}KEYS")


def _metrics(settings: ServerSettings, queue: QueueState) -> Metrics | None:
    if settings.no_metrics:
        return None
    from embedder.server.metrics import Metrics as PrometheusMetrics  # noqa: PLC0415

    return PrometheusMetrics(queue)


def _tracer(settings: ServerSettings) -> Tracer | None:
    if settings.otlp_endpoint is None:
        return None
    from embedder.server.traces import Tracer as OpenTelemetryTracer  # noqa: PLC0415

    return OpenTelemetryTracer(settings.otlp_endpoint)


def _report(error: SettingsError) -> None:
    sys.stderr.write(f"error: {error} The keys from before stay valid.\n")
    sys.stderr.flush()
