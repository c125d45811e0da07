"""Lambda's entry: `handler(event, context)`.

The module reads the environment and builds the router when it is imported, in the cold start. An
error there fails the initialization, with a message that says how to fix it.
"""

import gc
import os
import time
from typing import Any

from embedder.core import startup as _startup  # noqa: F401 - first, for its effect

# isort: split
from embedder.application import build_router
from embedder.aws_lambda.function_url import (
    is_event,
    request_from_event,
    response_to_event,
    to_payload_v2,
)
from embedder.core.errors import ClientError
from embedder.core.settings import EmbedderSettings
from embedder.http.router import Router, new_request_id
from embedder.http.telemetry import RequestRecord, Telemetry

#: Kept from Lambda's timeout, to render the answer and send it.
_RESERVE_SECONDS = 0.25


def handle_event(router: Router, event: Any, context: Any) -> dict[str, Any]:
    """Return the response to one invocation, also to one that is not an HTTP request."""
    event = to_payload_v2(event)
    request_id = str(getattr(context, "aws_request_id", "") or "")
    try:
        request = request_from_event(event, request_id=request_id, deadline=_deadline(context))
    except ClientError as error:
        path = event["rawPath"] if is_event(event) else ""
        record = RequestRecord(request_id or new_request_id())
        return response_to_event(router.error_response(error, record, path=path))
    return response_to_event(router.handle(request))


def _deadline(context: Any) -> float | None:
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    if remaining is None:
        return None
    return float(time.monotonic() + remaining() / 1000 - _RESERVE_SECONDS)


def _start(settings: EmbedderSettings) -> Router:
    router = build_router(settings, telemetry=Telemetry(settings))
    if settings.initialization != "on-demand":
        # With provisioned concurrency or SnapStart no request waits for this: warm the model.
        for model in router.models:
            model.loaded.warm()
    if settings.initialization == "snap-start":
        from embedder.aws_lambda.snapshot import prepare  # noqa: PLC0415 - only where there is a snapshot

        prepare(router)
    return router


_router = _start(EmbedderSettings.from_env(os.environ))
# The objects made so far stay alive, so the garbage collector need not traverse them.
gc.freeze()
gc.enable()


def handler(event: Any, context: Any) -> dict[str, Any]:
    """Answer an event of a Function URL or of a REST API."""
    return handle_event(_router, event, context)
