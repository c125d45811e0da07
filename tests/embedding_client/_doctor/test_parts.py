"""The API in front, batch jobs, the vector index and the server, where they are switched on."""

import json

import httpx
import pytest

from embedding_client._doctor.parts import (
    check_batch,
    check_documents,
    check_front,
    check_index,
    check_server,
    documents_result,
    executions_result,
    front_result,
    index_result,
    server_result,
)
from embedding_client._doctor.probes import Reply
from embedding_client._doctor.results import SkippedError, State

from .conftest import SPACE, deployed, stack

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
    ("status", "state"),
    [("RUNNING", State.OK), ("SUCCEEDED", State.OK), ("FAILED", State.WARNING)],
)
def test_the_newest_job(status, state):
    """A failed one is a warning."""
    found = executions_result([{"name": "docs-1", "status": status}])
    assert (found.state, found.found) == (state, f"the newest job docs-1: {status}")
    assert executions_result([]).found == "no job yet"


def test_the_state_machine_is_an_output(aws, snapshot):
    """One execution is enough."""
    deployed(aws, stack("Batch", StateMachineArn=MACHINE))
    asked = {"stateMachineArn": MACHINE, "maxResults": 1}
    aws.answers("stepfunctions", "list_executions", {"executions": []}, asked)
    assert check_batch(snapshot()).state == State.OK


def test_the_index_must_have_vectors_of_the_endpoint(aws, snapshot):
    """Of the same space, with any of its dimensions."""
    deployed(aws, stack("Index", IndexArn=INDEX))
    tags = {"tags": {"embedding-kit:vector-space": "model@1/int8/abc/128"}}
    aws.answers("s3vectors", "list_tags_for_resource", tags, {"resourceArn": INDEX})
    served = httpx.Response(200, headers={"x-vector-space": SPACE})
    assert check_index(snapshot(lambda _: served)).state == State.OK
    found = index_result("model@2/int8/abc/128", SPACE)
    assert (found.state, found.found) == (
        State.FAILED,
        f"loaded with vectors of model@2/int8/abc/128, but the endpoint serves {SPACE}",
    )
    found = index_result(None, SPACE)
    assert (found.state, found.found) == (State.WARNING, "no vectors are loaded")


def test_the_bucket_of_documents_must_send_events(aws, snapshot):
    """Without them the index is right once a day; dead letters are a warning."""
    url = "https://sqs.eu-central-1.amazonaws.com/1/letters"
    deployed(aws, stack("Index", DocumentsUrl="s3://docs/handbook/", DeadLettersUrl=url))
    sent: dict[str, dict[str, str]] = {"EventBridgeConfiguration": {}}
    aws.answers("s3", "get_bucket_notification_configuration", sent, {"Bucket": "docs"})
    asked = {"QueueUrl": url, "AttributeNames": ["ApproximateNumberOfMessages"]}
    answer = {"Attributes": {"ApproximateNumberOfMessages": "0"}}
    aws.answers("sqs", "get_queue_attributes", answer, asked)
    assert check_documents(snapshot()).state == State.OK
    found = documents_result("docs", sends=False, letters=0)
    assert (found.state, found.found) == (
        State.FAILED,
        "the bucket docs sends no events to EventBridge",
    )
    found = documents_result("docs", sends=True, letters=2)
    assert (found.state, found.found) == (State.WARNING, "2 dead letters")


def raises(error):
    def raise_it(*_, **__):
        raise error

    return raise_it


def test_the_server_is_asked_whether_it_is_ready(aws, snapshot):
    """From a host that may not reach it, nothing is known."""
    asked = []
    for answer, state in (
        (lambda _: httpx.Response(200), State.OK),
        (lambda _: httpx.Response(503), State.FAILED),
        (raises(httpx.ConnectTimeout("late")), State.WARNING),
    ):
        deployed(aws, stack("Server", Url="https://server.example.com/"))

        def record(request, answer=answer):
            asked.append((str(request.url), "authorization" in request.headers))
            return answer(request)

        assert check_server(snapshot(record)).state == state
    assert set(asked) == {("https://server.example.com/ready", False)}
    assert server_result(None, "late").found == "no answer (late)"


FRONT = "https://abc123.execute-api.eu-central-1.amazonaws.com/live/"


def test_the_api_in_front_gets_a_request_without_a_key(aws, snapshot):
    """The request has neither a key nor a signature."""
    deployed(aws, stack("Front", Url=FRONT))
    requests = []

    def answer(request):
        requests.append(request)
        return httpx.Response(401, json={"error": {"code": "invalid_api_key"}})

    finding = check_front(snapshot(answer))
    assert (finding.state, finding.found) == (State.OK, "without a key: 401 invalid_api_key")
    (request,) = requests
    assert str(request.url) == f"{FRONT}health"
    assert not {"authorization", "x-api-key"} & set(request.headers)


@pytest.mark.parametrize(
    ("status", "body", "state", "found"),
    [
        (403, {"error": {"code": "access_denied"}}, State.OK, "403 access_denied"),
        # Not by the templates of the API: somebody else answers, or the API is an old one.
        (403, {"message": "Forbidden"}, State.FAILED, "403 instead of 401"),
        (200, {"status": "ok"}, State.FAILED, "200 instead of 401"),
        (500, {"error": {"code": "internal_error"}}, State.FAILED, "500"),
    ],
)
def test_the_api_in_front_wants_a_key(status, body, state, found):
    """Only the API's own refusal of a request without a key is right."""
    finding = front_result(Reply(status, {}, json.dumps(body).encode(), 1.0))
    assert finding.state == state
    assert finding.found.startswith(f"without a key: {found}")


def test_a_private_api_cannot_be_reached_from_everywhere(aws, snapshot):
    """That is a warning, with the host and without its path."""
    deployed(aws, stack("Front", Url=FRONT))

    def answer(_):
        raise httpx.ConnectError("no route")

    finding = check_front(snapshot(answer))
    host = "abc123.execute-api.eu-central-1.amazonaws.com"
    assert finding.found == f"no answer (ConnectError at {host})"
    assert (finding.state, front_result("x").state) == (State.WARNING, State.WARNING)
