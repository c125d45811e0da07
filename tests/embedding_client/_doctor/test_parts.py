"""The API in front, batch jobs, the vector index and the server, where they are switched on."""

from typing import Any

import httpx
import pytest

from embedding_client._doctor.parts import (
    check_batch,
    check_documents,
    check_front,
    check_index,
    check_server,
)
from embedding_client._doctor.results import SkippedError

from .conftest import FAILED, NOW, OK, SPACE, WARNING, deployed, raises, stack

INDEX = "arn:aws:s3vectors:eu-central-1:123456789012:bucket/b/index/i"
MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:m"


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (check_front, r"\[front\] is off"),
        (check_batch, r"\[batch\] is off"),
        (check_index, r"\[index\] is off"),
        (check_documents, r"\[ingest\] is off"),
        (check_server, r"\[server\] is off"),
    ],
)
def test_a_part_that_is_off_is_skipped(aws, snapshot, check, words):
    """It has no stack."""
    deployed(aws)
    with pytest.raises(SkippedError, match=words):
        check(snapshot())


@pytest.mark.parametrize(
    ("status", "state"), [("RUNNING", OK), ("SUCCEEDED", OK), ("FAILED", WARNING), (None, OK)]
)
def test_the_newest_job(aws, snapshot, status, state):
    """A failed one is a warning; the state machine is an output."""
    deployed(aws, stack("Batch", StateMachineArn=MACHINE))
    arn = MACHINE.replace("stateMachine", "execution")
    job = {"executionArn": arn, "stateMachineArn": MACHINE, "name": "docs-1", "startDate": NOW}
    answer = {"executions": [{**job, "status": status}] if status else []}
    asked = {"stateMachineArn": MACHINE, "maxResults": 1}
    aws.answers("stepfunctions", "list_executions", answer, asked)
    found = check_batch(snapshot())
    words = f"the newest job docs-1: {status}" if status else "no job yet"
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("loaded", "state", "words"),
    [
        ("model@1/int8/abc/128", OK, "loaded with vectors of model@1/int8/abc/128"),
        (
            "model@2/int8/abc/128",
            FAILED,
            f"loaded with vectors of model@2/int8/abc/128, but the endpoint serves {SPACE}",
        ),
        (None, WARNING, "no vectors are loaded"),
    ],
)
def test_the_index_must_have_vectors_of_the_endpoint(aws, snapshot, loaded, state, words):
    """Of the same space, with any of its dimensions."""
    deployed(aws, stack("Index", IndexArn=INDEX))
    tags = {"tags": {"embedding-kit:vector-space": loaded} if loaded else {}}
    aws.answers("s3vectors", "list_tags_for_resource", tags, {"resourceArn": INDEX})
    served = httpx.Response(200, headers={"x-vector-space": SPACE})
    found = check_index(snapshot(lambda _: served))
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("sends", "letters", "state", "words"),
    [
        (True, 0, OK, "the bucket docs sends events; no dead letters"),
        (False, 0, FAILED, "the bucket docs sends no events to EventBridge"),
        (True, 2, WARNING, "2 dead letters"),
    ],
)
def test_the_bucket_of_documents_must_send_events(aws, snapshot, *, sends, letters, state, words):
    """Without them the index is right once a day; dead letters are a warning."""
    url = "https://sqs.eu-central-1.amazonaws.com/1/letters"
    deployed(aws, stack("Index", DocumentsUrl="s3://docs/handbook/", DeadLettersUrl=url))
    sent: dict[str, Any] = {"EventBridgeConfiguration": {}} if sends else {}
    aws.answers("s3", "get_bucket_notification_configuration", sent, {"Bucket": "docs"})
    asked = {"QueueUrl": url, "AttributeNames": ["ApproximateNumberOfMessages"]}
    answer = {"Attributes": {"ApproximateNumberOfMessages": str(letters)}}
    aws.answers("sqs", "get_queue_attributes", answer, asked)
    found = check_documents(snapshot())
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (lambda _: httpx.Response(200), OK, "ready"),
        (lambda _: httpx.Response(503), FAILED, "the response to GET /ready is 503"),
        (
            raises(httpx.ConnectTimeout("late")),
            WARNING,
            "no answer (ConnectTimeout at server.example.com)",
        ),
    ],
)
def test_the_server_is_asked_whether_it_is_ready(aws, snapshot, answer, state, words):
    """From a host that may not reach it, nothing is known."""
    deployed(aws, stack("Server", Url="https://server.example.com/"))
    asked = []

    def record(request):
        asked.append((str(request.url), "authorization" in request.headers))
        return answer(request)

    found = check_server(snapshot(record))
    assert (found.state, found.found) == (state, words)
    assert asked == [("https://server.example.com/ready", False)]


FRONT = "https://abc123.execute-api.eu-central-1.amazonaws.com/live/"


@pytest.mark.parametrize(
    ("status", "body", "state", "found"),
    [
        (401, {"error": {"code": "invalid_api_key"}}, OK, "401 invalid_api_key"),
        (403, {"error": {"code": "access_denied"}}, OK, "403 access_denied"),
        # Not by the templates of the API: somebody else answers, or the API is an old one.
        (403, {"message": "Forbidden"}, FAILED, "403 instead of 401"),
        (200, {"status": "ok"}, FAILED, "200 instead of 401"),
        (500, {"error": {"code": "internal_error"}}, FAILED, "500"),
    ],
)
def test_the_api_in_front_wants_a_key(aws, snapshot, *, status, body, state, found):
    """Only the API's own refusal of a request without a key and a signature is right."""
    deployed(aws, stack("Front", Url=FRONT))
    requests = []

    def answer(request):
        requests.append(request)
        return httpx.Response(status, json=body)

    finding = check_front(snapshot(answer))
    assert finding.state == state
    assert finding.found.startswith(f"without a key: {found}")
    (request,) = requests
    assert str(request.url) == f"{FRONT}health"
    assert not {"authorization", "x-api-key"} & set(request.headers)


def test_a_private_api_cannot_be_reached_from_everywhere(aws, snapshot):
    """That is a warning, with the host and without its path."""
    deployed(aws, stack("Front", Url=FRONT))
    finding = check_front(snapshot(raises(httpx.ConnectError("no route"))))
    host = "abc123.execute-api.eu-central-1.amazonaws.com"
    assert (finding.state, finding.found) == (WARNING, f"no answer (ConnectError at {host})")
