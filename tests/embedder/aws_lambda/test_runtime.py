"""The handler in AWS's own runtime, called over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedder.core.artifact import Artifact
from embedder.core.fast_tokenizers import load
from tools.local_endpoint.runtime import Function, Runtime, start

SOURCE_ROOT = Path(__file__).parents[3] / "lambda_image"


@pytest.fixture(scope="module")
def runtime(minilm_artifact: Artifact) -> Iterator[Runtime]:
    """Return the handler with the real model, in Lambda's emulator if it has a binary here."""
    function = Function(
        handler="embedder.aws_lambda.handler.handler",
        source_root=SOURCE_ROOT,
        environment={"EMBEDDING_ARTIFACT": str(minilm_artifact.folder)},
    )
    runtime = start(function)
    yield runtime
    runtime.close()


@pytest.fixture(scope="module")
def document(runtime: Runtime) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(ask(runtime, "GET", "/openapi.json", None)["body"])
    return document


def ask(runtime: Runtime, method: str, path: str, body: str | None) -> dict[str, Any]:
    """Send a request as the Function URL does."""
    event = {
        "version": "2.0",
        "rawPath": path,
        "headers": {},
        "requestContext": {"http": {"method": method}},
        "body": body,
        "isBase64Encoded": False,
    }
    answer: dict[str, Any] = json.loads(runtime.invoke(json.dumps(event).encode()))
    return answer


@pytest.mark.parametrize("text", ["Grüße", "日本語", "😀", 'a "quoted" \\ text', "line\u2028break"])
def test_any_script_gets_through(runtime, minilm_artifact, text):
    """The runtime's own JSON conversion does not change a text."""
    body = json.dumps({"inputs": text, "add_special_tokens": False}, ensure_ascii=False)
    (tokens,) = json.loads(ask(runtime, "POST", "/tokenize", body)["body"])
    tokenizer = load(minilm_artifact.manifest.tokenizer.kind, minilm_artifact.tokenizer_path)
    assert [token["id"] for token in tokens] == tokenizer.encode(text)


def test_a_lone_surrogate_in_the_event_gets_an_answer(runtime):
    """A lone surrogate that arrives as a JSON escape gets a 400 and does not crash the runtime."""
    answer = ask(runtime, "POST", "/", '{"text": "\ud83d"}')
    assert answer["statusCode"] == 400
    assert "lone surrogate" in answer["body"]


def test_the_documentation_shows_this_document(document):
    """docs/reference/openapi.json is `GET /openapi.json` of all-MiniLM-L6-v2, indented."""
    page = SOURCE_ROOT.parent / "docs" / "reference" / "openapi.json"
    assert json.loads(page.read_text(encoding="utf-8")) == document
