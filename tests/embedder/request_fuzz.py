"""Search for requests that break the router, guided by coverage.

`scripts/fuzz` runs the search until it is stopped. It needs atheris, which is installed in its own
environment, and accepts libFuzzer's options: `scripts/fuzz -max_total_time=600`. The first byte of
an input selects the meaning of the rest: a whole event of either payload format, or the body of one
of the operations, plain or in base64. A finding is an exception, a response with status 500, or a
body that is not JSON.
"""

import base64
import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["embedder"]):
    from embedder.aws_lambda.function_url import in_format_2, request_from_event, response_to_event
    from embedder.core.engine import Engine
    from embedder.core.errors import ClientError
    from embedder.core.settings import Settings
    from embedder.http.router import ROUTES, Router
    from embedder.http.telemetry import Telemetry

from tests.embedder.rest_api_event import rest_api_event
from tests.embedder.small_model import (
    PROMPTS,
    HashSession,
    WordTokenizer,
    manifest_of,
    router_of,
)

#: The folder where generated inputs are kept between runs.
CORPUS = Path(__file__).resolve().parents[2] / ".cache" / "fuzz" / "corpus"
PLACES = [(method, path) for path, methods in ROUTES.items() for method in methods]
SEEDS: dict[str, list[dict[str, Any]]] = {
    "/": [
        {"text": "hello world", "size": 16, "truncate": "left", "prompt_name": "query"},
        {"texts": ["a", "b"], "output_dtype": "binary", "encoding_format": "base64"},
        {"text": "a", "input_type": "document", "title": "t", "truncate": True},
        {"inputs": ["a", "b"], "normalize": False},
    ],
    "/similar": [{"text": "a", "num_results": 3}],
    "/v1/embeddings": [
        {"input": "a", "model": "m:query", "dimensions": 8, "user": "u"},
        {"input": [[1, 5, 2], [1, 3, 2]], "model": "m"},
        {"input": [5], "add_special_tokens": True},
    ],
    "/embed": [{"inputs": [1, 5, 2], "truncation_direction": "Left", "normalize": False}],
    "/embeddings": [{"input": ["a", "b"]}],
    "/decode": [{"ids": [[1, 5, 2]], "skip_special_tokens": False}],
    "/similarity": [
        {
            "inputs": {"source_sentence": "a", "sentences": ["b"]},
            "parameters": {"truncate": True},
        }
    ],
    "/tokenize": [{"inputs": ["ä b"], "add_special_tokens": False}],
    "/api/v1/embed": [{"inputs": "a", "dimensions": 8, "truncation_direction": "RIGHT"}],
}


def make_router() -> "Router":
    """Return a router with a small model, prompts and an index."""
    engine = Engine(manifest_of(prompts=PROMPTS), WordTokenizer(), HashSession(), cache_entries=20)
    return router_of(engine, telemetry=Telemetry(Settings(artifact=Path())))


SERVICE = make_router()


def one_input(data: bytes) -> None:
    """Convert bytes to an event, and answer it."""
    if not data:
        return
    choice, rest = data[0], data[1:]
    if choice >= 2 * len(PLACES):
        try:
            event = json.loads(rest)
        except (ValueError, RecursionError):
            return
    else:
        method, path = PLACES[choice % len(PLACES)]
        packed = choice >= len(PLACES)
        text = rest.decode("utf-8", "surrogateescape")
        event = {
            "rawPath": path,
            "requestContext": {"http": {"method": method}},
            "body": base64.b64encode(rest).decode() if packed else text,
            "isBase64Encoded": packed,
        }
    check(answer(event))


def answer(event: Any) -> dict[str, Any]:
    """Answer an event as the handler does, without its initialization."""
    try:
        request = request_from_event(in_format_2(event))
    except ClientError as error:
        return response_to_event(SERVICE.error_response(error, ""))
    return response_to_event(SERVICE.handle(request))


def check(response: dict[str, Any]) -> None:
    """Raise an AssertionError unless the response is valid."""
    if response["statusCode"] not in {200, 400, 404, 405, 413, 422, 424}:
        raise AssertionError(f"status {response['statusCode']}: {response['body'][:500]}")
    if response["isBase64Encoded"]:
        json.loads(gzip.decompress(base64.b64decode(response["body"])))
    elif response["body"]:  # HEAD has none
        json.loads(response["body"])
    json.dumps(response).encode()


def write_seeds() -> None:
    """Write valid requests to the corpus, so that the search starts from valid JSON."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, (_, path) in enumerate(PLACES):
        for index, body in enumerate(SEEDS.get(path, [{}])):
            seed = bytes([number]) + json.dumps(body, ensure_ascii=False).encode()
            (CORPUS / f"seed-{number}-{index}").write_bytes(seed)
    event = {
        "rawPath": "/",
        "rawQueryString": "a=b",
        "headers": {"A": "b"},
        "requestContext": {"http": {"method": "POST"}, "requestId": "1"},
        "body": '{"text": "a"}',
        "isBase64Encoded": False,
    }
    for name, whole in {"event": event, "rest-api-event": rest_api_event(event)}.items():
        (CORPUS / f"seed-{name}").write_bytes(b"\xff" + json.dumps(whole).encode())


if __name__ == "__main__":
    write_seeds()
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the log of millions of requests
    options = ["-max_len=4096", "-timeout=10", f"-artifact_prefix={CORPUS.parent}/"]
    atheris.Setup([*sys.argv, *options, str(CORPUS)], one_input)
    atheris.Fuzz()
