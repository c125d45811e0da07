"""Batch jobs, the vector index and the server, where they are switched on."""

import httpx
import pytest

from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.parts import (
    check_batch,
    check_index,
    check_server,
    judge_executions,
    judge_index,
    judge_server,
)

from .conftest import SPACE, deployed, stack

INDEX = "arn:aws:s3vectors:eu-central-1:123456789012:bucket/b/index/i"
MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:m"


def environment(aws, part="", **outputs):
    """Answer with an environment that has this part."""
    deployed(aws)
    for name in ("Repository", "Index", "Endpoint", "Batch", "Server", "Observability"):
        if name == part:
            found = {"Stacks": [stack(part, **outputs)]}
            aws.answers("cloudformation", "describe_stacks", found)
        else:
            aws.refuses("cloudformation", "describe_stacks", "ValidationError")


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (check_batch, r"\[batch\] is off"),
        (check_index, r"\[index\] is off"),
        (check_server, r"\[server\] is off"),
    ],
)
def test_a_part_that_is_off_is_skipped(aws, facts, check, words):
    """It has no stack."""
    environment(aws)
    with pytest.raises(SkippedError, match=words):
        check(facts())


@pytest.mark.parametrize(
    ("status", "state"),
    [("RUNNING", State.OK), ("SUCCEEDED", State.OK), ("FAILED", State.WARNING)],
)
def test_the_newest_job(status, state):
    """A failed one is a warning."""
    found = judge_executions([{"name": "docs-1", "status": status}])
    assert (found.state, found.found) == (state, f"the newest job docs-1: {status}")
    assert judge_executions([]).found == "no job yet"


def test_the_state_machine_is_an_output(aws, facts):
    """One execution is enough."""
    environment(aws, "Batch", StateMachineArn=MACHINE)
    asked = {"stateMachineArn": MACHINE, "maxResults": 1}
    aws.answers("stepfunctions", "list_executions", {"executions": []}, asked)
    assert check_batch(facts()).state == State.OK


def test_the_index_must_have_vectors_of_the_endpoint(aws, facts):
    """Of the same space, with any of its dimensions."""
    environment(aws, "Index", IndexArn=INDEX)
    tags = {"tags": {"embedding-kit:vector-space": "model@1/int8/abc/128"}}
    aws.answers("s3vectors", "list_tags_for_resource", tags, {"resourceArn": INDEX})
    served = httpx.Response(200, headers={"x-vector-space": SPACE})
    assert check_index(facts(lambda _: served)).state == State.OK
    found = judge_index("model@2/int8/abc/128", SPACE)
    assert (found.state, found.found) == (
        State.ILL,
        f"loaded with vectors of model@2/int8/abc/128, and the endpoint serves {SPACE}",
    )
    found = judge_index(None, SPACE)
    assert (found.state, found.found) == (State.WARNING, "no vectors are loaded")


def raises(error):
    def raise_it(*_, **__):
        raise error

    return raise_it


def test_the_server_is_asked_whether_it_is_ready(aws, facts, monkeypatch):
    """From a host that may not reach it, nothing is known."""
    for answer, state in (
        (lambda *_, **__: httpx.Response(200), State.OK),
        (lambda *_, **__: httpx.Response(503), State.ILL),
        (raises(httpx.ConnectTimeout("late")), State.WARNING),
    ):
        environment(aws, "Server", Url="https://server.example.com/")
        monkeypatch.setattr("httpx.get", answer)
        assert check_server(facts()).state == state
    assert judge_server(None, "late").found == "no answer (late)"
