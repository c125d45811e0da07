"""Callers that may search the documents below a prefix only."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedder.application import build_router
from embedder.aws_lambda.function_url import request_from_event, to_payload_v2
from embedder.core.engine import Engine
from embedder.core.errors import SettingsError
from embedder.core.settings import EmbedderSettings
from embedder.http.apis.operation import ServedModel
from embedder.http.router import Router
from embedder.http.search_prefixes import SearchPrefixes
from model_compiler.index_builder import build_index
from tests.embedder.rest_api_event import rest_api_event
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.sparse_models import write_sparse
from tests.model_compiler.goldens.tiny_models import write_model

ROLE = "arn:aws:iam::111122223333:role/teams/acme"
USER = "arn:aws:iam::111122223333:user/teams/all"
SESSION = "arn:aws:sts::111122223333:assumed-role/acme/session"
LIMITS = json.dumps({"acme/": [ROLE], "": [USER]})
KEYS = ["acme/a", "acme/b", "acme2/a", "other/acme/a", "root"]
QUESTIONS = {"/similar": "text", "/search": "query", "/mcp": "query"}

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def ask(make_engine: Callable[..., Engine], load: Any, open_with: Any) -> Ask:
    """Return a function that searches as a caller; it gives the status, and documents or a code."""
    engine = make_engine()
    tenants = [{"tenant": key.partition("/")[0]} if "/" in key else {} for key in KEYS]
    metadata = [{"document": key, **tenant} for key, tenant in zip(KEYS, tenants, strict=True)]
    index = open_with(engine, load(engine, [f"text {key}" for key in KEYS], metadata))
    router = Router(ServedModel(engine, index, prefixes=SearchPrefixes(LIMITS)), mcp=True)

    def asked(path: str, caller: Any, where: Any = None, *, rest: bool = False) -> tuple[int, Any]:
        body: dict[str, Any] = {QUESTIONS[path]: "text", "filter": where}
        if path == "/mcp":
            called = {"name": "search", "arguments": body}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
        event: dict[str, Any] = {
            "rawPath": path,
            "headers": {},
            "requestContext": {"http": {"method": "POST"}, "authorizer": caller},
            "body": json.dumps(body),
        }
        if rest:
            event = rest_api_event(event)
            event["requestContext"]["authorizer"] = caller
        response = router.handle(request_from_event(to_payload_v2(event)))
        answer = json.loads(response.body)
        if path == "/mcp":
            text = answer["result"]["content"][0]["text"]
            if answer["result"]["isError"]:
                return 403, text
            answer = json.loads(text)
        if "results" not in answer:
            return response.status, answer["error"]
        return 200, sorted(entry["metadata"]["document"] for entry in answer["results"])

    return asked


def by(arn: object) -> dict[str, Any]:
    """Return what Lambda says of a caller."""
    return {"iam": {"userArn": arn, "accountId": "111122223333"}}


@pytest.mark.parametrize("path", QUESTIONS)
@pytest.mark.parametrize(
    "where",
    [
        None,
        {"tenant": "acme2"},
        {"tenant": {"$ne": "acme"}},
        {"$or": [{"tenant": "acme2"}, {"document": "acme/a"}]},
        {"$and": [{"document": {"$in": KEYS}}]},
        {"document": {"$exists": True}},
    ],
)
def test_a_role_finds_only_what_is_below_its_prefix(ask, path, where):
    """The filter of the request narrows a search, and never widens it."""
    status, everything = ask(path, by(USER), where)
    assert status == 200
    own = [key for key in everything if key.startswith("acme/")]
    assert ask(path, by(SESSION), where) == (200, own)


@pytest.mark.parametrize("path", QUESTIONS)
@pytest.mark.parametrize(
    "caller",
    [
        by(SESSION.replace("acme", "acme2")),
        by(SESSION.replace("111122223333", "444455556666")),
        by(ROLE.replace("role/", "user/")),
        by("arn:aws:iam::111122223333:root"),
        by("arn:aws:sts::111122223333:federated-user/acme"),
        by("arn:aws:sts::111122223333:federated-user/acme/session"),
        by("arn:aws:sts::111122223333:assumed-role/other/acme"),
        by("acme"),
        by(None),
        {"iam": None},
        None,
    ],
)
def test_who_is_not_named_may_search_nothing(ask, path, caller):
    """Other callers are refused, and so is an event that names none."""
    status, message = ask(path, caller)
    assert (status, "found another caller" in message) == (403, True)


def test_an_event_of_an_api_names_no_caller(ask):
    """Its events have another form, and a part of the same name is not read."""
    assert ask("/search", by(USER), rest=True)[0] == 403


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"acme/"',
        json.dumps({"acme/": ROLE}),
        json.dumps({"acme/": [1]}),
        json.dumps({"acme": [ROLE]}),
        json.dumps({"/": [ROLE]}),
        json.dumps({"acme/a/": [ROLE]}),
        json.dumps({"acme/": ["arn:aws:iam::111122223333:root"]}),
        json.dumps({"acme/": ["arn:aws:iam::111122223333:group/acme"]}),
        json.dumps({"acme/": [ROLE], "": [ROLE.replace("teams/", "")]}),
    ],
)
def test_other_limits_do_not_start(text):
    """A limit that is not understood is never left out."""
    with pytest.raises(SettingsError, match="EMBEDDING_SEARCH_PREFIXES must be JSON"):
        SearchPrefixes(text)


@pytest.mark.parametrize("write", [write_model, write_sparse], ids=["embed", "sparse"])
def test_limits_need_an_index_of_documents(tmp_path, write):
    """A carried index has none, whatever the kind of model."""
    artifact = small_artifact(write(tmp_path / "model")).folder
    build_index(["a", "b"], Path(artifact), tmp_path / "index")
    with pytest.raises(SettingsError, match="found no EMBEDDING_VECTOR_INDEX"):
        build_router(
            EmbedderSettings(artifact=artifact, index=tmp_path / "index", search_prefixes=LIMITS)
        )
