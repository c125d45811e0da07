"""Responses of an endpoint, for clients with a mocked transport."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import numpy.typing as npt

from embedding_client import AsyncEmbeddingClient, RetryPolicy

URL = "https://abc.lambda-url.eu-west-1.on.aws"
SPACE = "model@1/int8/abc/2"
NO_WAIT = RetryPolicy(base=0)


def texts_of(request: httpx2.Request) -> list[str]:
    texts: list[str] = json.loads(request.content)["texts"]
    return texts


def vector_of(text: str) -> npt.NDArray[Any]:
    return np.array([len(text), ord(text[0])], "<f4")


def embedded(request: httpx2.Request) -> httpx2.Response:
    """Respond with a vector of two numbers for each text: its length and its first character."""
    rows = [base64.b64encode(vector_of(text).tobytes()).decode() for text in texts_of(request)]
    return httpx2.Response(200, json={"embeddings": rows, "vector_space": SPACE})


def refused(
    status: int, code: str | None = None, message: str = "no", **more: Any
) -> httpx2.Response:
    headers = {"x-request-id": "r-1", **more.pop("headers", {})}
    body = {"error": message, "code": code, "field": None, **more}
    return httpx2.Response(status, json=body, headers=headers)


def asynchronously(call: Callable[[AsyncEmbeddingClient], Any], *place: str, **options: Any) -> Any:
    """Return what a call of the asynchronous client gives."""

    async def main() -> Any:
        async with AsyncEmbeddingClient(*place, **options) as client:
            return await call(client)

    return asyncio.run(main())
