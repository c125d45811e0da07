"""`embed mcp`."""

import io
import json

import httpx2
import pytest

from embedding_client import CredentialsError, SigV4Auth
from embedding_client._mcp_bridge import bridge
from tests.fixtures.waiting import PATIENCE
from tools.local_endpoint.endpoint import endpoint

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def door(minilm_artifact):
    """Serve a model with its door for agents."""
    url, _ = endpoint(minilm_artifact.folder, mcp=True)
    with url:
        yield url.url


def answers(url, *lines, auth=SigV4Auth):
    read = io.StringIO("".join(f"{line}\n" for line in lines))
    write = io.StringIO()
    with httpx2.Client(auth=auth(region="us-east-1"), timeout=PATIENCE) as http:
        bridge(f"{url}/mcp", http, read, write)
    return [json.loads(line) for line in write.getvalue().splitlines()]


def test_messages_are_signed_and_answered_a_line_each(door):
    """A notification has no answer; a line that is not JSON has an error, and the next is read."""
    call = {"name": "embed", "arguments": {"text": "Grüße\n"}}
    asked = [
        json.dumps(PING),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "",
        "{",
        json.dumps({**PING, "id": "a", "method": "tools/call", "params": call}),
    ]
    pong, broken, called = answers(door, *asked)
    assert pong == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (broken["id"], broken["error"]["code"]) == (None, -32700)
    assert called["id"] == "a"
    assert len(json.loads(called["result"]["content"][0]["text"])["embedding"]) == 384


def test_an_endpoint_without_a_door_is_named(running):
    """With the setting that opens it."""
    (answer,) = answers(running.url, json.dumps(PING))
    assert answer["id"] == 1
    assert "it needs `mcp = true` under [function]" in answer["error"]["message"]


def test_expired_credentials_are_an_answer_and_the_next_message_is_sent(door):
    """The bridge continues when they are renewed."""

    class Renewed(SigV4Auth):
        expired = True

        def sync_auth_flow(self, request):
            if self.expired:
                self.expired = False
                raise CredentialsError("The token has expired.")
            yield from super().sync_auth_flow(request)

    first, second = answers(door, *[json.dumps(PING)] * 2, auth=Renewed)
    assert "The token has expired." in first["error"]["message"]
    assert second["result"] == {}


def test_an_endpoint_that_does_not_respond_is_an_answer(door):
    """The agent learns of it, and the bridge continues."""
    first, second = answers("http://127.0.0.1:9", json.dumps(PING), json.dumps({**PING, "id": 2}))
    assert (first["id"], second["id"]) == (1, 2)
    assert "http://127.0.0.1:9/mcp did not respond" in first["error"]["message"]
