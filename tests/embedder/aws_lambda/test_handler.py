"""Lambda's handler, called in process and in a fresh interpreter."""

import base64
import gc
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from embedder.core.artifact import Artifact
from embedder.http.router import Router
from tests.embedder.rest_api_event import rest_api_event
from tests.fixtures.small_artifact import small_artifact
from tests.jobs.conftest import run_as_lambda
from tests.model_compiler.goldens.static_models import WIDTH, write_sentence_transformers

ROOT = Path(__file__).parents[3]
EVENT: dict[str, Any] = {
    "version": "2.0",
    "rawPath": "/",
    "rawQueryString": "",
    "headers": {"content-type": "application/json"},
    "requestContext": {"http": {"method": "POST"}, "requestId": "from-the-event"},
    "body": '{"text": "hello world"}',
    "isBase64Encoded": False,
}


@pytest.fixture(scope="module")
def environment(minilm_artifact: Artifact) -> dict[str, str]:
    """Return the variables of a function that serves the real model."""
    return {"EMBEDDING_ARTIFACT": str(minilm_artifact.folder)}


def test_the_handler_answers_an_event(environment):
    """The request's id is in the response and in the log, and the first request is a cold start."""
    log, metrics, answer, more_lines = run_as_lambda(
        "import json, sys, types\n"
        "from embedder.aws_lambda.handler import handler\n"
        "context = types.SimpleNamespace(aws_request_id='from-the-context',"
        " get_remaining_time_in_millis=lambda: 30000)\n"
        f"print(json.dumps(handler({EVENT!r}, context)))\n"
        "print(json.dumps('embedder.aws_lambda.rest_api' in sys.modules))\n",
        **environment,
    )
    assert answer["statusCode"] == 200
    assert len(json.loads(answer["body"])["embedding"]) == 384
    assert answer["headers"]["x-request-id"] == "from-the-context"
    assert log["requestId"] == metrics["requestId"] == "from-the-context"
    assert log["coldStart"] is True
    assert more_lines is False, "the adapter of a REST API is imported only for its events"


def test_the_payloads_for_power_tuning_are_answered(environment):
    """Each event of the documented example gives vectors, so it measures what requests do."""
    example = json.loads((ROOT / "docs" / "examples" / "power_tuning.json").read_text("utf-8"))
    events = [payload["payload"] for payload in example["payload"]]
    *_, statuses = run_as_lambda(
        "import json\n"
        "from embedder.aws_lambda.handler import handler\n"
        f"print(json.dumps([handler(event, None)['statusCode'] for event in {events!r}]))\n",
        **environment,
    )
    assert statuses == [200, 200]


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ({"EMBEDDING_THREADS": "many"}, "EMBEDDING_THREADS must be a whole number"),
        ({"EMBEDDING_ARTIFACT": "nowhere"}, "is not an artifact"),
    ],
)
def test_a_start_that_fails_says_why(environment, variable, message):
    """The error that Lambda logs names the setting."""
    with pytest.raises(AssertionError, match=message):
        run_as_lambda("import embedder.aws_lambda.handler", **environment | variable)


def test_a_cold_start_imports_nothing_that_it_does_not_need(environment):
    """To keep cold starts short, no framework, validation library or logging is imported."""
    heavy = "pydantic tokenizers huggingface_hub onnx logging asyncio unittest http.client random"
    (response,) = run_as_lambda(
        "import sys, numpy, onnxruntime, orjson\n"
        "before = set(sys.modules)\n"
        "import embedder.aws_lambda.handler\n"
        "new = {n for n in set(sys.modules) - before if n.partition('.')[0] != 'embedder'}\n"
        "print(orjson.dumps(list(new)).decode())\n",
        **environment,
    )
    assert not {*heavy.split()} & {*response}
    assert len(response) < 25, sorted(response)


def test_a_static_model_starts_without_onnx_runtime(tmp_path):
    """It is served by numpy alone, from the manifest to the answer."""
    artifact = small_artifact(write_sentence_transformers(tmp_path / "static"))
    *_, answer, imported = run_as_lambda(
        "import json, sys\n"
        "from embedder.aws_lambda.handler import handler\n"
        f"print(json.dumps(handler({EVENT!r}, None)))\n"
        "print(json.dumps('onnxruntime' in sys.modules))\n",
        EMBEDDING_ARTIFACT=str(artifact.folder),
    )
    assert (answer["statusCode"], imported) == (200, False)
    assert len(json.loads(answer["body"])["embedding"]) == WIDTH


def test_garbage_is_collected_once_the_start_is_over(environment):
    """Garbage collection is enabled again at the end of the initialization."""
    code = "import gc, json, embedder.aws_lambda.handler\nprint(json.dumps(gc.isenabled()))"
    assert run_as_lambda(code, **environment) == [True]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, minilm_artifact: Artifact, router: Router) -> Any:
    """Return a function that calls `handle_event` with a small router."""
    monkeypatch.setenv("EMBEDDING_ARTIFACT", str(minilm_artifact.folder))
    from embedder.aws_lambda.handler import handle_event

    gc.unfreeze()  # the handler also froze the objects of the tests
    return lambda event, context=None: handle_event(router, event, context)


#: The request of an event, as each kind of front door sends it.
both_formats = pytest.mark.parametrize(
    "sent", [lambda event: event, rest_api_event], ids=["function-url", "rest-api"]
)


@both_formats
def test_both_formats_get_the_same_answer(answer, sent):
    """The same body and headers through either front door; without a context, the event's id."""
    response = answer(sent(EVENT))
    assert response == answer(EVENT)
    assert response["headers"]["x-request-id"] == "from-the-event"


@pytest.mark.parametrize(("is_base64", "encoding"), [(False, None), (True, "gzip")])
def test_a_rest_api_gets_gzip_where_it_passes_bytes(answer, is_base64, encoding):
    """A large answer is in gzip if the API passes binary bodies, and else it is text."""
    body = json.dumps({"texts": ["hello world"] * 400})
    event = EVENT | {
        "headers": {"accept-encoding": "gzip"},
        "body": base64.b64encode(body.encode()).decode() if is_base64 else body,
        "isBase64Encoded": is_base64,
    }
    response = answer(rest_api_event(event))
    assert response["statusCode"] == 200
    assert response["isBase64Encoded"] is is_base64
    assert response["headers"].get("content-encoding") == encoding


@pytest.mark.parametrize("event", [None, {}, {"Records": []}, "warm up", 7])
def test_what_is_no_request_gets_an_answer_too(answer, event):
    """A direct invocation gets a 400 and does not crash the function."""
    response = answer(event, SimpleNamespace(aws_request_id="id-1"))
    assert response["statusCode"] == 400
    assert json.loads(response["body"])["code"] == "not_a_function_url_event"
    assert response["headers"]["x-request-id"] == "id-1"


@both_formats
def test_a_bad_body_is_reported_by_the_api_of_its_path(answer, sent):
    """A client of OpenAI's API gets an error in OpenAI's format."""
    event = {**EVENT, "rawPath": "/v1/embeddings", "headers": {"content-encoding": "br"}}
    message = json.loads(answer(sent(event))["body"])["error"]
    assert message["code"] == "malformed_body"
    assert 'found "br"' in message["message"]


def test_the_deadline_is_the_contexts(answer):
    """A request without enough time left is refused before Lambda stops it."""
    context = SimpleNamespace(aws_request_id="id-1", get_remaining_time_in_millis=lambda: 100)
    assert answer(EVENT, context)["statusCode"] == 503
    context.get_remaining_time_in_millis = lambda: 30_000
    assert answer(EVENT, context)["statusCode"] == 200


@pytest.mark.parametrize(
    ("kind", "runs"), [("on-demand", 0), ("provisioned-concurrency", 1), ("snap-start", 1)]
)
def test_a_start_that_nobody_waits_for_runs_the_model_once(environment, kind, runs):
    """The model is run before the first request unless the start is on demand."""
    responses = run_as_lambda(
        "import json, sys\n"
        "from embedder.core.session import Session\n"
        "runs = []\n"
        "run = Session.run\n"
        "Session.run = lambda *a: (runs.append(1), run(*a))[1]\n"
        "import embedder.aws_lambda.handler\n"
        "print(json.dumps([len(runs), 'snapshot_restore_py' in sys.modules]))\n",
        **environment,
        AWS_LAMBDA_INITIALIZATION_TYPE=kind,
    )
    assert responses == [[runs, kind == "snap-start"]]
