"""`docs/api.md` is correct: its examples are run and its tables are compared with the code."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from embedder.core import errors
from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from embedder.core.errors import AnswerableError
from embedder.http.apis import classify, rerank, search, sparse
from embedder.http.apis.native import Native
from embedder.http.apis.openai import OpenAI
from embedder.http.apis.tei import Tei
from embedder.http.http_types import Request
from embedder.http.router import ROUTES, Router
from tests.embedder.small_model import router_of
from tools.local_endpoint import chunk_route
from tools.local_endpoint.chunk_route import ChunkRoute

TEXT = (Path(__file__).parents[3] / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sh\n(curl .*?)```\n```json\n(.*?)```", TEXT, re.DOTALL)
ENTRIES = ["Parse a string into a datetime.", "Return the sum of a list.", "Open a socket."]


@pytest.fixture(scope="module")
def router(minilm_artifact: Artifact) -> Router:
    """Return a router with the model of the examples and a small index."""
    return router_of(Engine.load(minilm_artifact), ENTRIES)


@pytest.fixture(scope="module")
def answered(router: Router, minilm_artifact: Artifact) -> Callable[[str, bytes], bytes]:
    """Return what answers a path as `scripts/serve` does, and a body unless it is empty."""
    chunks = ChunkRoute(Path(minilm_artifact.folder))

    def answer(path: str, body: bytes) -> bytes:
        if path == chunk_route.PATH:
            return chunks.respond("POST", body, "request-1").body
        return router.handle(Request("POST" if body else "GET", path, body=body)).body

    return answer


def same(shown: Any, answer: Any) -> bool:
    """Compare an example's JSON, abbreviated with `…`, with the response; floats to within 0.02."""
    match shown:
        case dict():
            is_cut = shown.pop("…", None) is not None
            return (
                isinstance(answer, dict)
                and (shown.keys() <= answer.keys() if is_cut else shown.keys() == answer.keys())
                and all(same(value, answer[key]) for key, value in shown.items())
            )
        case list():
            is_cut = shown[-1:] == ["…"]
            items = shown[:-1] if is_cut else shown
            return (
                isinstance(answer, list)
                and (len(items) < len(answer) if is_cut else len(items) == len(answer))
                and all(same(a, b) for a, b in zip(items, answer, strict=False))
            )
        case str():
            start, cut, _ = shown.partition("…")
            return isinstance(answer, str) and (
                answer.startswith(start) if cut else answer == shown
            )
        case float():
            return abs(shown - answer) <= 0.02
        case _:
            return type(shown) is type(answer) and bool(shown == answer)


@pytest.mark.parametrize(("command", "shown"), EXAMPLES)
def test_an_example_answers_what_it_shows(answered, command, shown):
    """The response to the command's request matches the example."""
    words = shlex.split(command)
    (url,) = [word for word in words if word.startswith("http://127.0.0.1:9000/")]
    body = words[words.index("-d") + 1].encode() if "-d" in words else b""
    path = url.removeprefix("http://127.0.0.1:9000")
    answer = answered(path, body)
    # An unquoted `…` represents omitted items and is not valid JSON, so it is quoted first.
    expected = orjson.loads(re.sub(r"(?<=[\[\s,])…(?=\s*\])", '"…"', shown))
    assert same(expected, orjson.loads(answer)), answer[:1000]


def test_the_table_of_paths_is_the_codes():
    """The table lists every path with its method."""
    table = re.findall(r"^\|`(GET|POST) (/[^`]*)`\|", TEXT, re.MULTILINE)
    others: list[dict[str, Any]] = [of.ROUTES for of in (search, rerank, classify, sparse)]
    routes = [ROUTES, *({at: of[at] for at in of if at not in ROUTES} for of in others)]
    assert table == [
        (method, path)
        for served in routes
        for path, methods in served.items()
        for method in methods
    ]


def test_the_table_of_errors_is_the_codes():
    """The table lists every code with its status, and OpenAI's and TEI's where they differ."""
    row = r"^\| `(\w+)` \| (\d+)(?:; OpenAI (\d+))?(?:; TEI (\d+))? \|$"
    rows = re.findall(row, TEXT, re.MULTILINE)
    error_classes = [
        error_class
        for error_class in vars(errors).values()
        if isinstance(error_class, type)
        and issubclass(error_class, AnswerableError)
        and error_class not in (AnswerableError, errors.ClientError, errors.InputError)
    ]
    assert {
        name: tuple(int(status or own) for status in (own, *others)) for name, own, *others in rows
    } == {
        error_class.code: tuple(api.status(error_class) for api in (Native, OpenAI, Tei))
        for error_class in error_classes
    }
