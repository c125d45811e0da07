"""Short functions that call a router."""

from typing import Any

import orjson

from embedder.http.http_types import Request, Response
from embedder.http.router import Router

#: A valid body for each operation; the small model's tokenizer cannot decode.
BODIES: dict[str, Any] = {
    "/": {"text": "a"},
    "/similar": {"text": "a"},
    "/v1/embeddings": {"input": "a", "model": "m"},
    "/embed": {"inputs": "a"},
    "/embeddings": {"input": "a"},
    "/similarity": {"inputs": {"source_sentence": "a", "sentences": ["b"]}},
    "/tokenize": {"inputs": "a"},
    "/decode": {"ids": [5]},
    "/api/v1/embed": {"inputs": "a"},
}


def post(router: Router, path: str, body: Any) -> Response:
    """Send a body: bytes unchanged, everything else as JSON."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return router.handle(Request("POST", path, body=raw, id="request-1"))


def get(router: Router, path: str) -> Response:
    return router.handle(Request("GET", path, id="request-1"))


def read(response: Response, status: int = 200) -> Any:
    """Return the JSON of a response after checking its status and headers."""
    assert response.status == status, response.body[:500]
    value = orjson.loads(response.body)
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"] == "request-1"
    return value
