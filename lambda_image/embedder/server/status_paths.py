"""The paths that load balancers and orchestrators ask: `/live`, `/ready`, `/ping`.

`/health` is the service's own path, and answers as on Lambda.
"""

from collections.abc import Callable

from embedder.http.apis.operation import json_response
from embedder.http.http_types import Response
from embedder.server.lifecycle import Lifecycle
from embedder.server.queue import BatchingSession

__all__ = ["STATUS_PATHS", "StatusPaths"]

STATUS_PATHS = ("/live", "/ping", "/ready")


class StatusPaths:
    """Answers them."""

    def __init__(self, queue: BatchingSession, lifecycle: Lifecycle) -> None:
        self._queue, self._lifecycle = queue, lifecycle
        self._answers: dict[str, Callable[[], Response]] = {
            "/live": self._live,
            "/ping": self._live,
            "/ready": self._ready,
        }

    def answer(self, method: str, path: str) -> Response | None:
        """Return the response to a request for one of these paths."""
        answer = self._answers.get(path)
        if answer is None:
            return None
        if method not in {"GET", "HEAD"}:
            return json_response(
                {"status": "wrong method"}, status=405, headers={"allow": "GET, HEAD"}
            )
        response = answer()
        return response._replace(body=b"") if method == "HEAD" else response

    def _live(self) -> Response:
        """Say whether the process should go on; if not, only a new one helps."""
        if not self._queue.alive:
            return json_response({"status": "a worker ended"}, status=503)
        return json_response({"status": "live"})

    def _ready(self) -> Response:
        """Say whether requests should be sent here. The port opens after the model has run once."""
        if self._lifecycle.draining:
            return json_response({"status": "draining"}, status=503)
        if not self._queue.alive:
            return json_response({"status": "a worker ended"}, status=503)
        return json_response({"status": "ready"})
