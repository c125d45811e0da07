"""A version of a function, as the check of a release calls it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from embedder.http.http_types import Request
from embedder.http.router import Router
from jobs.release_check.handler import Answer

Call = Callable[[str, str, Mapping[str, Any] | None], Answer]


def version_of(router: Router) -> Call:
    """Return a function that calls the embedder as the check calls a version."""

    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        encoded = json.dumps(body).encode() if body is not None else b""
        response = router.handle(Request(method, path, body=encoded))
        return Answer(status=response.status, body=json.loads(response.body))

    return call
